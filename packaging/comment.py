#!/usr/bin/env python3
"""packaging/comment.py SUMMARY: the one comment of a gate on its pull request, made or changed (action.yml sets the variables).

The verdict does not depend on it: what GitHub refuses is a warning.
"""
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

LONGEST = 60000  # characters; GitHub takes 65536


def call(method, url, document=None):
    request = urllib.request.Request(url, method=method, data=None if document is None else json.dumps(document).encode())
    request.add_header("Authorization", f"Bearer {os.environ['GITHUB_TOKEN']}")
    request.add_header("Accept", "application/vnd.github+json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def earlier(comments, mark):
    """The URL of this gate's comment. Anybody may write the mark, so a person's comment is none."""
    page = 1
    while found := call("GET", f"{comments}?per_page=100&page={page}"):
        for comment in found:
            if comment["user"]["type"] == "Bot" and comment["body"].startswith(mark):
                return comment["url"]
        page += 1
    return None


def main(summary):
    server, api, repository = (os.environ[f"GITHUB_{name}"] for name in ("SERVER_URL", "API_URL", "REPOSITORY"))
    comments = f"{api}/repos/{repository}/issues/{os.environ['GATE_PULL']}/comments"
    mark = f"<!-- ladder gate {os.environ['GATE_NAME']} -->"
    text = Path(summary).read_text(encoding="utf-8")[:LONGEST]
    body = f"{mark}\n{text}\n\n[This run]({server}/{repository}/actions/runs/{os.environ['GITHUB_RUN_ID']})\n"
    try:
        url = earlier(comments, mark)
        call("PATCH" if url else "POST", url or comments, {"body": body})
    except (urllib.error.URLError, TimeoutError) as error:
        print(f"::warning title=ladder gate::The comment was not written ({error}); the job needs `permissions: pull-requests: write`, "
              "which GitHub gives no fork")


if __name__ == "__main__":
    main(sys.argv[1])
