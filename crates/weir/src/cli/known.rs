//! Values that are known and that shells complete, where others may be written all the same.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use weir_types::ErrorCode;

/// The regions of the built-in price book.
const REGIONS: &[&str] = &["ap-northeast-1", "ap-northeast-2", "us-east-1"];
/// The machines that the advisor knows.
const MACHINES: &[&str] = &[
    "c5.2xlarge",
    "c5n.9xlarge",
    "i3.8xlarge",
    "i4i.16xlarge",
    "i4i.32xlarge",
    "i4i.8xlarge",
    "r5d.12xlarge",
    "r6i.24xlarge",
    "r6id.12xlarge",
    "r7i.24xlarge",
];
/// The experiments of `weir bench`.
const SUITES: &[&str] = &[
    "aligner",
    "all",
    "blast",
    "bucket",
    "credit-drain",
    "dd-large",
    "dummy-files",
    "fio-rand",
    "fio-seq",
    "hydrate",
    "metadata",
    "small-files",
];

/// Takes any text, and knows some.
#[derive(Clone)]
pub(super) struct Known(&'static [&'static str]);

/// A region with list prices.
pub(super) const REGION: Known = Known(REGIONS);
/// A type of instance.
pub(super) const MACHINE: Known = Known(MACHINES);
/// An experiment.
pub(super) const SUITE: Known = Known(SUITES);

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|name| PossibleValue::new(*name))))
    }
}

/// The name of an error in docs/errors.md, and nothing else.
pub(super) fn error_code() -> impl TypedValueParser<Value = ErrorCode> {
    PossibleValuesParser::new(ErrorCode::all().map(ErrorCode::name))
        .try_map(|name| ErrorCode::of(&name).ok_or("there is no such error"))
}

#[cfg(test)]
mod tests {
    use weir_bench::suites;
    use weir_cost::{PriceBook, machines};

    use super::*;

    #[test]
    fn what_is_completed_is_what_is_known() {
        let book = PriceBook::built_in();
        let mut names = book.regions();
        names.sort_unstable();
        assert_eq!(names, REGIONS);
        let mut names: Vec<_> = machines().into_iter().map(|of| of.instance).collect();
        names.sort();
        assert_eq!(names, MACHINES);
        let mut names: Vec<_> = suites::all().iter().map(|suite| suite.name().to_owned()).collect();
        names.extend(["all", "bucket"].map(str::to_owned));
        names.sort();
        assert_eq!(names, SUITES);
    }
}
