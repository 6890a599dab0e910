# Batch on machines that show a reference in S3 as files, at the speed of their own NVMe disks: docs/cloud.md.
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
    cloudinit = {
      source  = "hashicorp/cloudinit"
      version = "~> 2.3"
    }
  }
}

provider "aws" {
  region = var.region
}

locals {
  # What ../node/node.conf explains. Variables let no character through that a shell would take for more than itself.
  node_conf = <<-CONF
    VOLUMES='${var.volumes}'
    REFERENCE='${var.reference}'
    REFERENCE_OPTIONS='${var.reference_options}'
    HYDRATE='${join(" ", var.hydrate)}'
    RESULTS='${var.results}'
    REGION='${var.region}'
    PACKAGE='${var.package_url}'
    PACKAGE_SHA256='${var.package_sha256}'
    USERS='ecs.service'
  CONF
  cloud_config = {
    write_files = [{ path = "/etc/weir/node.conf", permissions = "0644", content = local.node_conf }]
  }
  mounts = [
    { name = "db", path = "/mnt/weir/db", read_only = true },
    { name = "out", path = "/mnt/weir/out", read_only = false },
    { name = "scratch", path = "/srv/nvme/scratch", read_only = false },
  ]
  container = {
    image   = var.image
    command = var.command
    user    = var.user
    resourceRequirements = [
      { type = "VCPU", value = tostring(var.job_vcpus) },
      { type = "MEMORY", value = tostring(var.job_memory_mib) },
    ]
    # The same paths as on the machine. A container needs no more than this: no device, no capability, no key.
    volumes     = [for m in local.mounts : { name = m.name, host = { sourcePath = m.path } }]
    mountPoints = [for m in local.mounts : { sourceVolume = m.name, containerPath = m.path, readOnly = m.read_only }]
  }
}

# Batch takes user data only as a MIME archive, and adds a part of its own: the name of the cluster.
data "cloudinit_config" "node" {
  gzip          = false
  base64_encode = true

  part {
    content_type = "text/cloud-config"
    content      = "#cloud-config\n${jsonencode(local.cloud_config)}"
  }
  part {
    content_type = "text/x-shellscript"
    filename     = "weir-node.sh"
    content      = file("${path.module}/../node/weir-node.sh")
  }
}

resource "aws_launch_template" "node" {
  name_prefix            = "${var.name}-"
  user_data              = data.cloudinit_config.node.rendered
  update_default_version = true

  # Version 2 of the metadata service only, and no hop further than the machine: containers have no part in its role.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_type           = "gp3"
      volume_size           = var.root_gib
      encrypted             = true
      delete_on_termination = true
    }
  }

  tag_specifications {
    resource_type = "instance"
    tags          = { Name = "${var.name}-node" }
  }

  lifecycle {
    precondition {
      condition     = (var.package_url == "") == (var.package_sha256 == "")
      error_message = "package_url and package_sha256 go together."
    }
    precondition {
      condition     = var.package_url != "" || var.ami_id != null
      error_message = "Machines have no weir: set package_url, or ami_id to an image that has it."
    }
  }
}

resource "aws_batch_compute_environment" "fleet" {
  type = "MANAGED"

  compute_resources {
    type                = var.spot ? "SPOT" : "EC2"
    allocation_strategy = var.spot ? "SPOT_PRICE_CAPACITY_OPTIMIZED" : "BEST_FIT_PROGRESSIVE"
    instance_type       = var.instance_types
    min_vcpus           = 0
    max_vcpus           = var.max_vcpus
    instance_role       = aws_iam_instance_profile.node.arn
    security_group_ids  = [aws_security_group.node.id]
    subnets             = var.subnet_ids

    ec2_configuration {
      image_type        = "ECS_AL2023"
      image_id_override = var.ami_id
    }

    launch_template {
      launch_template_id = aws_launch_template.node.id
      version            = aws_launch_template.node.latest_version
    }
  }

  # A queue cannot be without one: the new one is there before the old one goes.
  lifecycle {
    create_before_destroy = true
  }

  depends_on = [aws_iam_role_policy_attachment.ecs, aws_iam_role_policy.buckets]
}

resource "aws_batch_job_queue" "jobs" {
  name     = var.name
  state    = "ENABLED"
  priority = 1

  compute_environment_order {
    order               = 1
    compute_environment = aws_batch_compute_environment.fleet.arn
  }
}

resource "aws_batch_job_definition" "job" {
  name                  = var.name
  type                  = "container"
  container_properties  = jsonencode(local.container)
  platform_capabilities = ["EC2"]

  # Again if the machine went, not if the program failed.
  retry_strategy {
    attempts = 3

    evaluate_on_exit {
      action           = "RETRY"
      on_status_reason = "Host EC2*"
    }
    evaluate_on_exit {
      action    = "EXIT"
      on_reason = "*"
    }
  }
}
