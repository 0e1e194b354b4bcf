#!/usr/bin/env bash
# Copies a folder to a backup, and removes old copies.
set -euo pipefail

source_folder=${1:?usage: backup.sh FOLDER}
kept_copies=7

# Prints a message with the time.
log_message() {
    printf '%s %s\n' "$(date +%H:%M:%S)" "$1" >&2
}

# Copies the folder under the name of today.
function copy_folder {
    local target="$2/$(date +%F)"
    mkdir -p "$target"
    cp -a "$1/." "$target"
    log_message "copied $1 to $target"
}

remove_old_copies() {
    ls -1 "$1" | sort -r | tail -n "+$((kept_copies + 1))" | while read -r name; do
        rm -rf "${1:?}/$name"
        log_message "removed $name"
    done
}

copy_folder "$source_folder" /var/backups
remove_old_copies /var/backups
