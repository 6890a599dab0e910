variable "name" {
  description = "Begins the names of all that is made."
  type        = string
  default     = "weir"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,30}$", var.name))
    error_message = "Letters, digits and hyphens, 31 at most, a letter first."
  }
}

variable "region" {
  description = "Where the machines and their volumes' bucket are: in one region bytes between them cost nothing."
  type        = string
}

variable "vpc_id" {
  description = "The network of the machines."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the machines. They must reach the addresses of ECS, ECR and CloudWatch Logs: by NAT, or by interface endpoints."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) > 0
    error_message = "At least one subnet."
  }
}

variable "route_table_ids" {
  description = "Route tables of these subnets: they get a gateway endpoint for S3, without which a NAT gateway bills each byte. Empty if they have one."
  type        = list(string)
  default     = []
}

variable "volumes" {
  description = "s3://BUCKET/PREFIX below which each machine has its volume."
  type        = string

  validation {
    condition     = can(regex("^s3://[a-z0-9][a-z0-9.-]+[a-z0-9]/[A-Za-z0-9._=/-]*[A-Za-z0-9._=-]$", var.volumes))
    error_message = "s3://BUCKET/PREFIX, of letters, digits and . _ = / -, without a slash at its end."
  }
}

variable "reference" {
  description = "s3://BUCKET/PREFIX that jobs find at /mnt/weir/db. It is only read."
  type        = string

  validation {
    condition     = can(regex("^s3://[a-z0-9][a-z0-9.-]+[a-z0-9]/[A-Za-z0-9._=/-]*[A-Za-z0-9._=-]$", var.reference))
    error_message = "s3://BUCKET/PREFIX, of letters, digits and . _ = / -, without a slash at its end."
  }
}

variable "reference_options" {
  description = "Options of `weir link` for it, such as --anonymous, or --region us-east-1."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^[A-Za-z0-9 ,=._-]*$", var.reference_options))
    error_message = "Options and their values, of letters, digits and , = . _ -, separated by blanks."
  }
}

variable "results" {
  description = "s3://BUCKET/PREFIX where files that jobs close below /mnt/weir/out become objects."
  type        = string

  validation {
    condition     = can(regex("^s3://[a-z0-9][a-z0-9.-]+[a-z0-9]/[A-Za-z0-9._=/-]*[A-Za-z0-9._=-]$", var.results))
    error_message = "s3://BUCKET/PREFIX, of letters, digits and . _ = / -, without a slash at its end."
  }
}

variable "hydrate" {
  description = "Directories of the reference that come at boot; \".\" is all of it, [] brings only what is read."
  type        = list(string)
  default     = ["."]

  validation {
    condition     = alltrue([for path in var.hydrate : can(regex("^[A-Za-z0-9._=/-]+$", path))])
    error_message = "Directories below the reference, of letters, digits and . _ = / -."
  }
}

variable "kms_key_arns" {
  description = "Keys of your own (SSE-KMS) that these buckets have."
  type        = list(string)
  default     = []
}

variable "package_url" {
  description = "https:// address of weir's .rpm (.deb, for an image of Debian's kind), readable without keys from the subnets. Empty if the image has weir."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(https://[A-Za-z0-9._~:/+-]+[.](rpm|deb))?$", var.package_url))
    error_message = "https://….rpm or .deb, with nothing behind it: whoever may describe the launch template reads it."
  }
}

variable "package_sha256" {
  description = "The package's line in SHA256SUMS."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^([0-9a-f]{64})?$", var.package_sha256))
    error_message = "64 hexadecimal digits."
  }
}

variable "ami_id" {
  description = "Image of the machines; null for the newest ECS-optimized Amazon Linux 2023."
  type        = string
  default     = null
}

variable "instance_types" {
  description = "Types or families with an instance store, of which Batch takes what fits."
  type        = list(string)
  default     = ["c6id", "m6id", "r6id", "i4i"]

  validation {
    condition     = length(var.instance_types) > 0 && !contains(var.instance_types, "optimal")
    error_message = "At least one; \"optimal\" stands for families without an instance store."
  }
}

variable "max_vcpus" {
  description = "Most processors at once: what bounds the bill."
  type        = number
  default     = 64

  validation {
    condition     = var.max_vcpus > 0 && floor(var.max_vcpus) == var.max_vcpus
    error_message = "A whole number above 0."
  }
}

variable "spot" {
  description = "Spot machines: cheaper, and taken away at any time."
  type        = bool
  default     = false
}

variable "root_gib" {
  description = "Size of the root disk: images of containers, and the tier of a machine without instance store."
  type        = number
  default     = 50

  validation {
    condition     = var.root_gib >= 30
    error_message = "30 GiB at least, as the image wants."
  }
}

variable "image" {
  description = "Container image of the job."
  type        = string
}

variable "command" {
  description = "What the job runs, unless who submits it says otherwise."
  type        = list(string)
  default     = ["ls", "-l", "/mnt/weir/db"]
}

variable "user" {
  description = "UID:GID of the job in its container. Root there is root of the files below /mnt/weir, too."
  type        = string
  default     = "65534:65534"

  validation {
    condition     = can(regex("^[0-9]+:[0-9]+$", var.user))
    error_message = "UID:GID, as numbers."
  }
}

variable "job_vcpus" {
  description = "Processors of a job."
  type        = number
  default     = 4
}

variable "job_memory_mib" {
  description = "Memory of a job. Weir itself takes about 1 GiB of each machine, and the page cache is what makes searches fast."
  type        = number
  default     = 8192
}
