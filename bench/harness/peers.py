"""The servers of peers.toml: what they are, whether they are here, and in which version.

Called by main, which keeps those that are present and names the others with the reason; server.py starts them.
"""

import glob
import os
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent


# Where peers that Debian lacks were built.
built = ROOT / "target" / "peers"


class Mistake(Exception):
    """Something in a file or on the command line that its author must mend."""


@dataclass(frozen=True)
class Peer:
    """One table of peers.toml; README.md says what each key means."""

    name: str
    title: str
    command: list
    role: str = "peer"
    needs: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)
    features: dict = field(default_factory=dict)
    version: list = field(default_factory=list)
    package: str = ""
    unlimited: str = "0"
    stop: str = "TERM"
    keepalive: bool = True
    holds: bool = False
    tls: bool = False  # it speaks TLS, with the certificate that is made for it
    http2: bool = False
    apps: list = field(default_factory=lambda: ["psgi"])
    only: list = field(default_factory=list)

    def takes(self, word):
        """Whether its command or its files mention {word}: what cannot be set cannot be compared."""
        texts = self.command + [(BENCH / source).read_text() for source in self.files.values() if isinstance(source, str)]
        return any("{" + word + "}" in text for text in texts)


def load(path):
    """Every Peer of a file, by name."""
    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Mistake(f"{path}: {error}") from error
    return {name: peer(path, name, table) for name, table in tables.items()}


def peer(path, name, table):
    known = {f.name for f in fields(Peer)}
    for key in table:
        if key not in known:
            raise Mistake(f"{path}: [{name}] has the unknown key {key}; known are {', '.join(sorted(known))}")
    if "command" not in table or "{port}" not in " ".join(table["command"]) and "files" not in table:
        raise Mistake(f"{path}: [{name}] needs a command that mentions {{port}}")
    return Peer(name=name, **{"title": name, **table})


def fill(text, values):
    """Replaces {word} by its value; other braces stay as they are (files hold Perl and Apache blocks)."""
    for word, value in values.items():
        text = text.replace("{" + word + "}", str(value))
    return text


def constants():
    """The words that are the same for every server."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()
    return {"root": ROOT, "bench": BENCH, "target": target, "apache": shutil.which("apache2") or "/usr/sbin/apache2",
            "apache_modules": "/usr/lib/apache2/modules", "built": built.absolute()}


def missing(one):
    """Why a server cannot be measured here, or None."""
    for program in one.needs.get("programs", []):
        if not shutil.which(program):
            return f"no program {program}"
    for name in one.needs.get("files", []):
        if not os.path.exists(fill(name, constants())):
            return f"no file {fill(name, constants())}"
    for plugin in one.needs.get("uwsgi_plugins", []):
        if not glob.glob(f"/usr/lib/uwsgi/plugins/{plugin}_plugin.so"):
            return f"no uWSGI plugin {plugin}"
    return missing_module(one.needs.get("modules", []))


def missing_module(modules):
    """Perl modules are looked for, not loaded: those of mod_perl load in Apache only."""
    for module in modules:
        name = module.replace("::", "/") + ".pm"
        if subprocess.run(["perl", "-e", f'exit !grep {{ -e "$_/{name}" }} @INC'], check=False).returncode:
            return f"no Perl module {module}"
    return None


def has_feature(one, name):
    """Whether this server has an optional feature: its first option is listed where the table says."""
    feature = one.features.get(name)
    if not feature:
        return False
    return feature["options"][0] in output([fill(word, constants()) for word in feature["listed"]])


def version(one):
    """The package's version where there is one, for it names the patches as well, else what the program says."""
    package = output(["dpkg-query", "-W", "-f=${Version}", one.package]) if one.package else ""
    said = output([fill(word, constants()) for word in one.version]) if one.version else ""
    return f"{one.package} {package}" if package else said.strip().partition("\n")[0] or "unknown"


def output(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
