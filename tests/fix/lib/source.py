"""Debian's source of QuickFIX, fetched into a folder of the caller's; nothing of it is kept in the repository."""
import os
import subprocess
import tarfile

LIST = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n"
PACKAGE = "quickfix"


class NotFetched(Exception):
    """Why there is no source."""


def fetched(folder):
    """The root of the unpacked source. Only folder is written to: the system's own lists stay as they are."""
    paths = {name: os.path.join(folder, name) for name in ("lists/partial", "cache/archives/partial", "source")}
    for path in paths.values():
        os.makedirs(path)
    with open(os.path.join(folder, "sources.list"), "w", encoding="ascii") as file:
        file.write(LIST)
    options = ["-qq", "-o", f"Dir::Etc::sourcelist={folder}/sources.list", "-o", "Dir::Etc::sourceparts=/nonexistent",
               "-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache",
               "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=15"]
    for words in (["update"], ["--download-only", "source", PACKAGE]):
        try:
            done = subprocess.run(["apt-get", *options, *words], cwd=paths["source"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=90, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotFetched(str(error)) from error
        if done.returncode != 0:
            raise NotFetched(done.stdout.decode(errors="replace").strip()[-300:])
    tar = [name for name in os.listdir(paths["source"]) if ".orig.tar." in name]
    if len(tar) != 1:
        raise NotFetched(f"no source package in {os.listdir(paths['source'])}")
    with tarfile.open(os.path.join(paths["source"], tar[0])) as archive:
        wanted = [m for m in archive.getmembers() if "/test/definitions/server/fix44/" in m.name or m.name.endswith("/spec/FIX44.xml")]
        for member in wanted:
            if member.name.startswith("/") or ".." in member.name or not (member.isfile() or member.isdir()):
                raise NotFetched(f"{member.name}: not taken")
        archive.extractall(paths["source"], wanted)
    return os.path.join(paths["source"], wanted[0].name.split("/")[0])
