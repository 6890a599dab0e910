//! The price lists that are read.

use schemars::JsonSchema;
use serde::Serialize;

/// A price list that AWS publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Offer {
    /// Amazon S3.
    #[serde(rename = "AmazonS3")]
    S3,
    /// Amazon EFS.
    #[serde(rename = "AmazonEFS")]
    Efs,
    /// Amazon FSx.
    #[serde(rename = "AmazonFSx")]
    Fsx,
    /// Amazon EC2, with EBS. Hundreds of megabytes for a region.
    #[serde(rename = "AmazonEC2")]
    Ec2,
    /// What leaves a region.
    #[serde(rename = "AWSDataTransfer")]
    DataTransfer,
}

impl Offer {
    /// All lists that prices are read from.
    pub const ALL: [Self; 5] = [Self::S3, Self::Efs, Self::Fsx, Self::Ec2, Self::DataTransfer];

    /// What AWS calls it.
    pub fn code(self) -> &'static str {
        match self {
            Self::S3 => "AmazonS3",
            Self::Efs => "AmazonEFS",
            Self::Fsx => "AmazonFSx",
            Self::Ec2 => "AmazonEC2",
            Self::DataTransfer => "AWSDataTransfer",
        }
    }

    /// Where AWS publishes it for a region, to everybody.
    pub fn url(self, region: &str) -> String {
        let code = self.code();
        format!(
            "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/{code}/current/{region}/index.csv"
        )
    }

    /// The column that says which region a row is of.
    pub(super) fn region_column(self) -> &'static str {
        if self == Self::DataTransfer { "From Region Code" } else { "Region Code" }
    }

    /// The column that tells a region from the small sites near it, which the same file lists.
    pub(super) fn place_column(self) -> &'static str {
        if self == Self::DataTransfer { "From Location Type" } else { "Location Type" }
    }
}

/// What AWS calls all of them.
pub(super) fn codes() -> String {
    Offer::ALL.map(Offer::code).join(", ")
}
