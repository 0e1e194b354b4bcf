#!/bin/sh
# Installs the command `pannier` from a release: downloads the archive for this machine, checks its SHA-256, and puts the
# program into a folder.
#
#   PANNIER_VERSION      the version [default: that of this installer]
#   PANNIER_INSTALL_DIR  the folder [default: ~/.local/bin]
#   PANNIER_BASE_URL     the address of the folder with the archives
set -eu

version=${PANNIER_VERSION:-@VERSION@}
base=${PANNIER_BASE_URL:-@BASE_URL@}
folder=${PANNIER_INSTALL_DIR:-${HOME:?set HOME or PANNIER_INSTALL_DIR}/.local/bin}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

case $base in
    *@*) fail "this installer does not come from a release; set PANNIER_VERSION and PANNIER_BASE_URL" ;;
esac

case $(uname -s) in
    Linux) system=unknown-linux-gnu ;;
    Darwin) system=apple-darwin ;;
    *) fail "there is no binary for $(uname -s); use cargo install --locked pannier-cli, or the .zip for Windows" ;;
esac
case $(uname -m) in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no binary for $(uname -m); use cargo install --locked pannier-cli" ;;
esac
name=pannier-$version-$machine-$system

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

download() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --output "$2" "$1" || fail "cannot download $1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document "$2" "$1" || fail "cannot download $1"
    else
        fail "neither curl nor wget is installed"
    fi
}

printf 'downloading %s\n' "$base/$name.tar.gz" >&2
download "$base/$name.tar.gz" "$scratch/$name.tar.gz"
download "$base/$name.tar.gz.sha256" "$scratch/$name.tar.gz.sha256"

expected=$(cut -d ' ' -f 1 "$scratch/$name.tar.gz.sha256")
if command -v sha256sum >/dev/null; then
    actual=$(sha256sum "$scratch/$name.tar.gz" | cut -d ' ' -f 1)
elif command -v shasum >/dev/null; then
    actual=$(shasum -a 256 "$scratch/$name.tar.gz" | cut -d ' ' -f 1)
else
    fail "neither sha256sum nor shasum is installed, so the download cannot be checked"
fi
[ -n "$expected" ] && [ "$actual" = "$expected" ] ||
    fail "the checksum of $name.tar.gz is $actual, not $expected; nothing was installed"

tar -xzf "$scratch/$name.tar.gz" -C "$scratch"
mkdir -p "$folder"
# A rename replaces a program that is running; writing into it would fail.
cp "$scratch/$name/pannier" "$folder/.pannier.new"
chmod 755 "$folder/.pannier.new"
mv "$folder/.pannier.new" "$folder/pannier"
printf 'installed %s as %s\n' "$("$folder/pannier" --version)" "$folder/pannier" >&2
case :${PATH:-}: in
    *:"$folder":*) ;;
    *) printf 'add %s to PATH to run it as pannier\n' "$folder" >&2 ;;
esac
