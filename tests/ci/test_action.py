"""action.yml and templates/gate.yml, carried out here as the servers' runners do it: expressions and inputs filled in, the shell of
every step run in a repository of its own. Its program tells its times itself (test_gate_commits.py), so that a busy machine
changes no verdict.
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import venv

import pytest

yaml = pytest.importorskip("ruamel.yaml")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "program"))
from test_gate_commits import TRAIN, commit, git  # noqa: E402  (found through the line above)


def load(text: str):
    return yaml.YAML(typ="safe").load(text)


ACTION = load((ROOT / "action.yml").read_text())
TEMPLATE = (ROOT / "templates" / "gate.yml").read_text()
GIVEN = {"command": "python3 train.py", "flags": "--warmup 2 --steps 8", "version": "installed"}
NOISE = 0.001  # of the program's times: six pairs are enough to catch 2 %


def bash(script: str, folder: pathlib.Path, environment: dict) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], cwd=folder, env=environment,
                          capture_output=True, text=True, check=False, timeout=1200)


def evaluate(expression: str, context: dict):
    """The value of what stands in ${{ }}. What is not there is empty."""
    def python(word: re.Match) -> str:
        return f"get({word['name']!r})" if word["name"] else {"&&": " and ", "||": " or ", "!": " not "}.get(word[0], word[0])
    text = re.sub(r"'[^']*'|\w+\(|(?P<name>[a-z][\w.-]*)|&&|\|\||!(?!=)", python, expression)
    return eval(text, {"get": lambda name: context.get(name, ""), "format": str.format, "always": lambda: True})


def filled(text: str, context: dict) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: str(evaluate(found[1], context)), text)


class Job:
    """What a runner keeps between the steps of a job."""

    def __init__(self, folder: pathlib.Path, repository: pathlib.Path, cache: pathlib.Path, **variables):
        self.temp, self.repository, self.cache = folder / "runner temp", repository, cache
        self.temp.mkdir(parents=True)
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GATE_"))}
        self.environment = ours | {
            "LADDER_BUSY": "1", "LADDER_LOCK_DIR": str(folder), "XDG_CACHE_HOME": str(folder / "home"), "CUDA_VISIBLE_DEVICES": "",
            "LC_ALL": "C.UTF-8",
            "LADDER_PYTHON": "/bin/false",  # no page is drawn, which takes longer than the runs
            "GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(self.temp), **variables}
        for name in ("STEP_SUMMARY", "OUTPUT"):
            self.environment[f"GITHUB_{name}"] = str(folder / name)
        self.said = ""

    def run(self, event=(), **inputs) -> int:
        """The first step's exit status that is not 0, after which only steps with always() run."""
        inputs = GIVEN | inputs
        assert set(inputs) <= set(ACTION["inputs"])
        context = {"runner.temp": str(self.temp), "github.run_id": self.temp.parent.name, "github.run_attempt": "1",
                   "github.token": "secret", **dict(event)}
        for name, described in ACTION["inputs"].items():
            context[f"inputs.{name}"] = inputs.get(name, filled(described.get("default", ""), context))
        status = 0
        for step in ACTION["runs"]["steps"]:
            condition = step.get("if", "success")
            if (status != 0 and "always()" not in condition) or (condition != "success" and not evaluate(condition, context)):
                continue
            if "uses" in step:
                self.carry({name: filled(text, context) for name, text in step["with"].items()}, step["uses"].split("@")[0])
                continue
            output = pathlib.Path(self.environment["GITHUB_OUTPUT"])
            output.write_text("")
            given = {name: filled(text, context) for name, text in step["env"].items()}
            done = bash(step["run"], self.repository, self.environment | given)
            self.said += done.stdout + done.stderr
            status = status or done.returncode
            for line in output.read_text().splitlines():
                context[f"steps.{step['id']}.outputs.{line.split('=')[0]}"] = line.split("=", 1)[1]
        self.folder = pathlib.Path(filled(ACTION["outputs"]["folder"]["value"], context))
        return status

    def carry(self, given: dict, action: str) -> None:
        """actions/cache: a folder for each key, of which the newest with a prefix counts."""
        if action == "actions/cache/save":
            shutil.copytree(given["path"], self.cache / given["key"])
        else:
            assert action == "actions/cache/restore"
            kept = sorted(self.cache.glob(given["restore-keys"] + "*"), key=lambda path: path.stat().st_mtime)
            if kept:
                shutil.copytree(kept[-1], given["path"])

    def summary(self) -> str:
        return pathlib.Path(self.environment["GITHUB_STEP_SUMMARY"]).read_text()


@pytest.fixture(scope="module")
def built() -> pathlib.Path:
    return pathlib.Path(os.environ.get("LADDER") or pytest.skip("LADDER is not set"))


@pytest.fixture
def repository(tmp_path) -> pathlib.Path:
    """A program, a branch that is as fast, and one that is 10 % slower."""
    folder = tmp_path / "program"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "train.py").write_text(TRAIN.replace("time.sleep(600)\n", ""))
    commit(folder, step_s=0.002, noise=NOISE)
    for branch, step_s in (("equal", 0.002), ("slower", 0.0022)):
        git(folder, "checkout", "-q", "-b", branch, "main")
        commit(folder, step_s=step_s, noise=NOISE, more="# a change")
    git(folder, "checkout", "-q", "main")
    (folder / "train.py").write_text(f"import settings\nsettings.STEP_S *= 3\n{(folder / 'train.py').read_text()}")
    git(folder, "commit", "-q", "-a", "-m", "Slow down main, which is not the branches' doing")
    return folder


@pytest.fixture
def job(tmp_path, repository, built):
    """job("name"): a job that finds the built program on PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ladder").symlink_to(built)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return lambda name, **variables: Job(tmp_path / name, repository, tmp_path / "cache", **{"PATH": path, **variables})


def pull_request(repository: pathlib.Path, branch: str) -> dict[str, str]:
    """Checked out is what main would become, of which main is the first parent."""
    git(repository, "checkout", "-q", "--detach", "main")
    git(repository, "merge", "-q", "--no-ff", branch)
    merged = git(repository, "rev-parse", "HEAD").strip()
    return {"github.event_name": "pull_request", "github.sha": merged, "github.event.pull_request.number": "7"}


# ---- On GitHub

@pytest.mark.parametrize("event, base", [
    ({"github.event_name": "pull_request", "github.sha": "aaa"}, "aaa^1"),
    ({"github.event_name": "push", "github.sha": "aaa", "github.event.before": "bbb"}, "bbb"),
    ({"github.event_name": "push", "github.event.before": "bbb", "github.event.forced": True}, "HEAD~1"),
    ({"github.event_name": "push", "github.event.before": "000", "github.event.created": True}, "HEAD~1"),
    ({"github.event_name": "schedule"}, "HEAD~1"),
])
def test_what_head_is_compared_with(event, base) -> None:
    assert filled(ACTION["inputs"]["base"]["default"], event) == base


def test_an_equal_head_passes_and_a_slower_one_fails(job, repository) -> None:
    first = job("first")
    assert first.run(pull_request(repository, "equal")) == 0, first.said
    assert first.summary().startswith("## ladder gate: SAME") and "compared with itself, once" in first.said
    second = job("second")
    assert second.run(pull_request(repository, "slower"), **{"no-answer": "pass"}) == 1, second.said
    assert second.summary().startswith("## ladder gate: REGRESSION")
    assert "compared with itself" not in second.said, "the cache has the noise"
    assert second.summary() == (second.folder / "summary.md").read_text()
    assert {path.name for path in second.folder.iterdir()} == {"gate", "said.txt", "status", "summary.md"}
    third = job("third")
    assert third.run(pull_request(repository, "slower"), catch="0.001", **{"no-answer": "pass"}) == 0, third.said
    assert "0.001 % cannot be caught" in third.summary() and "compared with itself" not in third.said, "it would not help"
    assert len(git(repository, "worktree", "list").splitlines()) == 1 and not git(repository, "status", "--porcelain")


def test_each_side_and_the_calibration_are_prepared(job, repository, tmp_path) -> None:
    """Both have a package that only --prepare installs, beside those of the runner's python."""
    venv.create(tmp_path / "python", symlinks=True)
    (packages,) = tmp_path.glob("python/lib/python3*/site-packages")
    (packages / "of_the_runner.py").touch()
    prepare = """python3 -c 'import of_the_runner, os, site
    open(site.getsitepackages()[0] + "/settings.pth", "w").write(os.getcwd() + "/package")'""".replace("\n    ", "\n")
    for branch in ("main", "equal"):
        git(repository, "checkout", "-q", branch)
        (repository / "package").mkdir()
        git(repository, "mv", "settings.py", "package/settings.py")
        git(repository, "commit", "-q", "-m", "Move")
    git(repository, "update-ref", "refs/heads/main", "equal")
    commit(repository / "package", step_s=0.002, noise=NOISE, more="# one more change")
    noise, path = tmp_path / "kept", f"{tmp_path / 'python' / 'bin'}:{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = job("unprepared", PATH=path)
    assert done.run({}, prepare="exit 7", noise=str(noise), base="main") == 3, done.said
    assert "trying base" not in done.said and not noise.exists()
    done = job("prepared", PATH=path)
    assert done.run({}, prepare=prepare, noise=str(noise), base="main") == 0, done.said
    assert "compared with itself" in done.said and list(noise.rglob("*.noise.json")) and not (tmp_path / "cache").exists()
    assert not list(packages.glob("settings*")), "the runner's own python stays as it was"


@pytest.mark.parametrize("no_answer, status", [("fail", 3), ("pass", 0), ("perhaps", 2)])
def test_no_answer(job, repository, no_answer, status) -> None:
    git(repository, "checkout", "-q", "slower")
    (repository / "train.py").write_text("raise SystemExit('broken')")
    commit(repository)
    commit(repository, more="# still broken")
    done = job("job")
    assert done.run({}, **{"no-answer": no_answer}) == status, done.said
    assert done.summary().startswith(f"## ladder gate: no verdict (exit status {status or 3})\n\n    "), done.summary()
    assert ("broken" if status != 2 else "got perhaps") in done.summary()


def test_inputs_are_no_shell(job, repository) -> None:
    for name in ("base", "catch", "for-s", "flags"):
        done = job(name)
        assert done.run(pull_request(repository, "equal"), **{name: "$(touch pwned);`touch pwned`"}) == 2, done.said
    assert not (repository / "pwned").exists()
    done = job("pattern")
    assert done.run(pull_request(repository, "equal"), flags="--limit-s [t]rain.py") == 2 and "[t]rain.py" in done.said, done.said


def test_the_installation(job, repository, tmp_path) -> None:
    """pip installs the wheel, where the packages that it needs besides are not at hand."""
    build = os.environ.get("LADDER_BUILD") or pytest.skip("LADDER_BUILD is not set")
    subprocess.run([sys.executable, ROOT / "packaging" / "wheel.py", "--build-dir", build, "--out", tmp_path], check=True)
    pip = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_FIND_LINKS": str(tmp_path)}
    done = job("job", **pip)
    assert done.run({}, base="nowhere", version="99") != 0 and "gpt2-ladder[charts]==99" in done.said
    done = job("again", **pip)
    assert done.run({}, base="nowhere", version="") == 2, done.said
    (tools,) = done.temp.glob("ladder-tools-*/bin")
    found = tools / "ladder"
    assert [path.name for path in tools.iterdir()] == ["ladder"], "the program's python stays the first"
    helped = subprocess.run([found, "help", "flash"], capture_output=True, text=True, check=False)
    assert helped.returncode == 0 and "attention" in helped.stdout, helped.stderr  # a text from its share folder


# ---- The comment

class Pull(http.server.BaseHTTPRequestHandler):
    """As much of GitHub as a comment needs: its list, a page at a time, a new one, a changed one."""

    def answer(self, document, status=200) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def do_GET(self) -> None:
        page = int(self.path.rpartition("=")[2])
        known = [comment | {"url": f"{self.server.url}/comment/{number}"} for number, comment in enumerate(self.server.comments)]
        self.answer(known[100 * (page - 1):100 * page])

    def written(self) -> str:
        assert self.headers["Authorization"] == "Bearer secret"
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]

    def do_POST(self) -> None:
        if self.server.read_only:
            self.answer({}, 403)
            return
        assert self.path == "/repos/us/program/issues/7/comments"
        self.server.comments.append({"user": {"type": "Bot"}, "body": self.written()})
        self.answer({}, 201)

    def do_PATCH(self) -> None:
        self.server.comments[int(self.path.rpartition("/")[2])]["body"] = self.written()
        self.answer({})

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def pull():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pull)
    server.url, server.read_only = f"http://127.0.0.1:{server.server_port}", False
    server.comments = [{"user": {"type": "User"}, "body": f"comment {number}"} for number in range(120)]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def test_one_comment_for_each_command(job, repository, pull) -> None:
    github = {"GITHUB_API_URL": pull.url, "GITHUB_SERVER_URL": "https://github.example", "GITHUB_REPOSITORY": "us/program",
              "GITHUB_RUN_ID": "5"}
    event = pull_request(repository, "equal")
    silent = job("silent", **github)
    assert silent.run(event, base="nowhere") == 2 and len(pull.comments) == 120, silent.said
    for name, where in (("one", "nowhere"), ("two", "elsewhere")):
        assert job(name, **github).run(event, base=where, comment="true") == 2
        assert len(pull.comments) == 121 and f"{where} and HEAD have no common commit" in pull.comments[-1]["body"], "it is changed"
    assert "[This run](https://github.example/us/program/actions/runs/5)" in pull.comments[-1]["body"]
    pull.comments[0]["body"] = pull.comments[-1]["body"].split("\n")[0]  # a stranger's, before ours
    assert job("three", **github).run(event, base="nowhere", comment="true") == 2
    assert len(pull.comments) == 121 and "nowhere" in pull.comments[-1]["body"] and "nowhere" not in pull.comments[0]["body"]
    assert job("four", **github).run(event, base="nowhere", comment="true", command="./other") == 2 and len(pull.comments) == 122
    pull.read_only = True
    refused = job("five", **github)
    assert refused.run(event, base="nowhere", comment="true", command="./third") == 2
    assert "::warning title=ladder gate::The comment was not written (HTTP Error 403" in refused.said


# ---- On GitLab

def documents(text: str, **inputs) -> tuple[str, str]:
    """The component's two documents, of which the second has its inputs filled in, as text, as GitLab does."""
    header, text = text.split("\n---\n")
    values = {name: inputs.get(name, described.get("default")) for name, described in load(header)["spec"]["inputs"].items()}
    used = r"\$\[\[ inputs\.(\S+) \]\]"
    assert set(inputs) <= set(values) == set(re.findall(used, text))
    return header, re.sub(used, lambda found: value if isinstance(value := values[found[1]], str) else json.dumps(value), text)


def gitlab_job(**inputs) -> dict:
    (job,) = load(documents(TEMPLATE, **inputs)[1]).values()
    return job


@pytest.mark.parametrize("good, bad, words", [
    ("", "", ""), ("expose_as:", "exposed_as:", "exposed_as"), ("type: array", "type: list", "list")])
def test_the_component_is_as_gitlab_wants_it(tmp_path, good, bad, words) -> None:
    said = ""
    for number, document in enumerate(documents(TEMPLATE.replace(good, bad), command="python train.py")):
        file = tmp_path / f"{number}.yml"
        file.write_text(document)
        done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci", file],
                              capture_output=True, text=True, check=False)
        said += done.stdout + done.stderr if done.returncode != 0 else ""
    assert words in said and bool(said) == bool(words), said


def test_the_docs_give_inputs_that_there_are() -> None:
    blocks = re.findall(r"\n\n((?:    .*\n)+)", (ROOT / "docs" / "ci.md").read_text())
    github, gitlab = [load(textwrap.dedent(block)) for block in blocks]
    for workflow in (github, load((ROOT / "docs" / "bench.yml").read_text())):
        (given,) = [step["with"] for step in workflow["jobs"]["speed"]["steps"] if "gpt2-ladder" in step["uses"]]
        assert {"command"} <= set(given) <= set(ACTION["inputs"])
    assert gitlab_job(**gitlab["include"][0]["inputs"])["tags"] == ["gpu"]


def test_both_run_the_same_shell() -> None:
    shell = (ROOT / "packaging" / "gate-commits").read_text()
    begin, script = gitlab_job(command="x")["script"]
    assert script == shell[shell.index("set -eu"):]
    lines = [line.strip().replace("${TMPDIR:-/tmp}", "$RUNNER_TEMP") for line in begin.splitlines() if line.startswith("  ")]
    assert [line for line in lines if line not in ACTION["runs"]["steps"][0]["run"]] == ['export PATH="$tools/bin:$PATH"']


def test_a_job_of_gitlab(job, repository) -> None:
    git(repository, "checkout", "-q", "--detach", "slower")
    (repository / ".git" / "info" / "exclude").write_text("ladder-*\n")
    command = """python3 -c 'exec(open("train.py").read())'"""  # with both kinds of quotes
    document = gitlab_job(command=command, flags=GIVEN["flags"], version="installed")
    known = {"CI_PROJECT_DIR": str(repository), "CI_MERGE_REQUEST_DIFF_BASE_SHA": git(repository, "merge-base", "main", "slower").strip(),
             "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": ""}
    variables = {name: value["value"] if isinstance(value, dict) else re.sub(r"\$(\w+)", lambda found: known[found[1]], value)
                 for name, value in document["variables"].items()}
    assert variables["GATE_COMMAND"] == command
    environment = {name: value for name, value in job("gitlab").environment.items() if not name.startswith("GITHUB_")}
    merged = environment | variables | known | {"CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "main"}
    assert bash(f'{document["script"][0]}\necho "$GATE_BASE"', repository, merged).stdout == "main\n"
    done = bash("\n".join(document["script"]), repository, environment | variables | known)
    assert done.returncode == 1 and "REGRESSION" in done.stdout, done.stdout + done.stderr
    kept, noise = [repository / path for path in (*document["artifacts"]["paths"], *document["cache"]["paths"])]
    assert (kept / "summary.md").read_text().startswith("## ladder gate: REGRESSION") and list(noise.rglob("*.noise.json"))
    assert json.loads((kept / "gate" / "plan.json").read_text())["timed_steps"] == 8, "the flags arrive"
