data "aws_partition" "here" {}

locals {
  s3 = "arn:${data.aws_partition.here.partition}:s3:::"
  at = {
    for name, url in { volumes = var.volumes, reference = var.reference, results = var.results } :
    name => regex("^s3://(?P<bucket>[^/]+)/(?P<prefix>.+)$", url)
  }
  # What docs/credentials.md says of a volume, of a link that is only read, and of one that is exported to.
  actions = {
    volumes   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
    reference = ["s3:GetObject"]
    results = [
      "s3:GetObject",
      "s3:PutObject",
      "s3:DeleteObject",
      "s3:AbortMultipartUpload",
      "s3:GetObjectTagging",
      "s3:PutObjectTagging",
    ]
  }
  list_statements = [for name, at in local.at : {
    Effect    = "Allow"
    Action    = ["s3:ListBucket"]
    Resource  = ["${local.s3}${at.bucket}"]
    Condition = { StringLike = { "s3:prefix" = "${at.prefix}/*" } }
  }]
  object_statements = [for name, at in local.at : {
    Effect   = "Allow"
    Action   = local.actions[name]
    Resource = ["${local.s3}${at.bucket}/${at.prefix}/*"]
  }]
  kms_statements = [for arn in var.kms_key_arns : {
    Effect   = "Allow"
    Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource = [arn]
  }]
  policy = {
    Version   = "2012-10-17"
    Statement = concat(local.list_statements, local.object_statements, local.kms_statements)
  }
}

# The machine's role, which is the daemon's. Jobs do not need it, and cannot take it.
resource "aws_iam_role" "node" {
  name_prefix = "${var.name}-node-"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "buckets" {
  name_prefix = "buckets-"
  role        = aws_iam_role.node.id
  policy      = jsonencode(local.policy)
}

# Amazon's own, without which a machine cannot join the cluster.
resource "aws_iam_role_policy_attachment" "ecs" {
  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.here.partition}:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role"
}

resource "aws_iam_instance_profile" "node" {
  name_prefix = "${var.name}-node-"
  role        = aws_iam_role.node.name
}
