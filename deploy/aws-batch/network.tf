# Nobody comes in. What goes out is HTTPS: S3, ECS, ECR, logs, and the system's packages.
resource "aws_security_group" "node" {
  name_prefix = "${var.name}-node-"
  description = "Machines of ${var.name}"
  vpc_id      = var.vpc_id

  egress {
    description = "HTTPS"
    protocol    = "tcp"
    from_port   = 443
    to_port     = 443
    cidr_blocks = ["0.0.0.0/0"]
  }

  lifecycle {
    create_before_destroy = true
  }
}

# The way to S3 that costs nothing. Images of ECR and packages of Amazon Linux come from S3, too, out of Amazon's own
# buckets, so it has no policy: what machines may do is the role's to say.
resource "aws_vpc_endpoint" "s3" {
  count = length(var.route_table_ids) > 0 ? 1 : 0

  vpc_id            = var.vpc_id
  vpc_endpoint_type = "Gateway"
  service_name      = "com.amazonaws.${var.region}.s3"
  route_table_ids   = var.route_table_ids
}
