output "job_queue" {
  description = "Where jobs go: aws batch submit-job --job-queue …"
  value       = aws_batch_job_queue.jobs.arn
}

output "job_definition" {
  description = "What they run: aws batch submit-job --job-definition …"
  value       = aws_batch_job_definition.job.arn
}

output "launch_template" {
  description = "Template of the machines, and its version."
  value       = "${aws_launch_template.node.id}:${aws_launch_template.node.latest_version}"
}

output "node_role" {
  description = "Role of the machines: for the policies of buckets and keys in other accounts."
  value       = aws_iam_role.node.arn
}
