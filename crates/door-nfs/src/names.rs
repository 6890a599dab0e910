//! Users and groups by name, as the files of this machine have them.

/// The number of a user, or of a group, of this name. Reads a file.
pub(crate) fn id_of(name: &str, group: bool) -> Option<u32> {
    let file = if group { "/etc/group" } else { "/etc/passwd" };
    find(&std::fs::read_to_string(file).ok()?, name)
}

fn find(lines: &str, name: &str) -> Option<u32> {
    let id = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    };
    lines.lines().find_map(id)
}

/// All groups of a user of this number, its own first, if this machine knows it. Reads two files.
pub(crate) fn groups_of(uid: u32) -> Option<Vec<u32>> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let groups = std::fs::read_to_string("/etc/group").ok()?;
    member_of(&users, &groups, uid)
}

fn member_of(users: &str, groups: &str, uid: u32) -> Option<Vec<u32>> {
    let user = |line: &str| {
        let fields: Vec<_> = line.split(':').collect();
        let is = fields.get(2)?.parse() == Ok(uid);
        is.then(|| Some((fields[0].to_owned(), fields.get(3)?.parse().ok()?)))?
    };
    let (name, own): (String, u32) = users.lines().find_map(user)?;
    let group = |line: &str| {
        let fields: Vec<_> = line.split(':').collect();
        let is_in = fields.get(3)?.split(',').any(|member| member == name);
        is_in.then(|| fields[2].parse().ok())?
    };
    Some(std::iter::once(own).chain(groups.lines().filter_map(group)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000:Ada,,,:/home/ada:/bin/sh\n";
    const GROUPS: &str = "root:x:0:\nlab:x:50:bob,ada\nada:x:1000:\nstaff:x:60:adam\n";

    #[test]
    fn names_lead_to_numbers() {
        assert_eq!((find(USERS, "ada"), find(USERS, "ad")), (Some(1000), None));
        assert_eq!(find(GROUPS, "lab"), Some(50));
        assert_eq!(member_of(USERS, GROUPS, 1000), Some(vec![1000, 50]));
        assert_eq!(member_of(USERS, GROUPS, 7), None);
        assert_eq!(find("broken\n:::\n", "broken"), None);
    }
}
