//! Whose rules they are: of the volume's own objects, or of those of a link.
//!
//! A rule of a directory in a link is for the link's objects, those above it are not: nobody who has a rule for a volume
//! wants to pay for moving what others keep in a bucket that it shows.

use std::sync::Arc;

use weir_types::{Ino, Result};

use super::Lifecycle;
use super::row::RulesRow;
use crate::services::links::Link;

/// The rules of a volume, by whose objects they are for.
pub(super) struct Parted {
    /// Those for segments.
    pub(super) own: RulesRow,
    /// Those for objects of links; of each link that has some.
    pub(super) links: Vec<(Arc<Link>, RulesRow)>,
}

impl Lifecycle {
    /// The link that a directory is in. A read for each directory above, where there are links.
    pub(super) async fn link_of(&self, dir: Ino) -> Result<Option<Arc<Link>>> {
        for link in self.links.registry.all() {
            if self.links.resolver.is_below(&link, dir).await? {
                return Ok(Some(link));
            }
        }
        Ok(None)
    }

    /// Parts the rules.
    pub(super) async fn part(&self, rules: RulesRow) -> Result<Parted> {
        let of = |rules| RulesRow { number: rules, rules: Vec::new() };
        let number = rules.number;
        let (mut own, mut links) = (of(number), Vec::<(Arc<Link>, RulesRow)>::new());
        for (dir, rule) in rules.rules {
            let Some(link) = self.link_of(Ino(dir)).await? else {
                own.rules.push((dir, rule));
                continue;
            };
            match links.iter_mut().find(|(known, _)| known.id == link.id) {
                Some((_, rules)) => rules.rules.push((dir, rule)),
                None => links.push((link, RulesRow { rules: vec![(dir, rule)], ..of(number) })),
            }
        }
        Ok(Parted { own, links })
    }
}
