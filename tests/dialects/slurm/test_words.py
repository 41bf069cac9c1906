"""Slurm's words for time, size, hosts and options: as they are read, and as they are written."""

from datetime import datetime, timedelta, timezone

import pytest

from tgpu.dialects.slurm import (
    array_ids,
    arrays,
    durations,
    exporting,
    file_names,
    gres,
    hosts,
    moments,
    sizes,
)
from tgpu.dialects.slurm.constraints import label_rules, node_rules
from tgpu.dialects.slurm.dependencies import needs
from tgpu.dialects.slurm.flag_table import KNOWN
from tgpu.dialects.slurm.places import pool_of, tenant_of
from tgpu.dialects.slurm.refusal import SlurmError

NOW = datetime(2026, 3, 10, 14, 30, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("120:00", 7200),
        ("1:30:00", 5400),
        ("100:00:00", 360_000),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("1-00:00:01", 86_401),
        ("0", None),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_a_time_limit(text: str, seconds: int | None) -> None:
    assert durations.time_limit_s("--time", text) == seconds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1-99:99:99", "--time '1-99:99:99' says 99 hours, of which there are at most 23 there"),
        ("1:99:00", "says 99 minutes, of which there are at most 59 there"),
        ("10:99", "says 99 seconds"),
        ("2h", "--time must be a time such as 90 (minutes)"),
        ("", "--time must be a time"),
        ("1:2:3:4", "--time must be a time"),
        ("-5", "--time must be a time"),
        ("99999999", "--time may be at most 3660 days"),
        ("٣", "--time must be a time"),
    ],
)
def test_a_time_that_cannot_be_meant(text: str, said: str) -> None:
    with pytest.raises(SlurmError) as caught:
        durations.time_limit_s("--time", text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "short", "whole"),
    [
        (0, "0:00", "00:00:00"),
        (65, "1:05", "00:01:05"),
        (3605, "1:00:05", "01:00:05"),
        (216_000, "2-12:00:00", "2-12:00:00"),
    ],
)
def test_how_long_is_written(seconds: int, short: str, whole: str) -> None:
    assert (durations.written(seconds), durations.written_whole(seconds)) == (short, whole)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("now", "2026-03-10T13:30:00Z"),
        ("now+1hour", "2026-03-10T14:30:00Z"),
        ("now+90", "2026-03-10T13:31:30Z"),
        ("now+2days", "2026-03-12T13:30:00Z"),
        ("16:00", "2026-03-10T15:00:00Z"),
        ("14:00", "2026-03-11T13:00:00Z"),
        ("4:15pm", "2026-03-10T15:15:00Z"),
        ("teatime", "2026-03-10T15:00:00Z"),
        ("tomorrow", "2026-03-10T23:00:00Z"),
        ("2026-03-20", "2026-03-19T23:00:00Z"),
        ("2026-03-20T12:34", "2026-03-20T11:34:00Z"),
        ("2026-03-20T12:34:56", "2026-03-20T11:34:56Z"),
        ("03/20/27", "2027-03-19T23:00:00Z"),
        ("01/20", "2027-01-19T23:00:00Z"),
        ("032026", "2026-03-19T23:00:00Z"),
        ("04/01-08:00", "2026-04-01T07:00:00Z"),
    ],
)
def test_a_moment(text: str, utc: str) -> None:
    assert moments.rfc3339(moments.moment("--begin", text, NOW)) == utc


@pytest.mark.parametrize(
    "text", ["soon", "25:00", "now+1fortnight", "2026-13-40", "13pm", "now+999999999weeks"]
)
def test_a_moment_that_there_is_not(text: str) -> None:
    with pytest.raises(SlurmError, match="--begin"):
        moments.moment("--begin", text, NOW)


def test_a_moment_in_the_past_is_todays() -> None:
    assert moments.rfc3339(moments.moment("-S", "08:00", NOW, past=True)) == "2026-03-10T07:00:00Z"
    assert moments.rfc3339(moments.moment("-S", "now-1hours", NOW, past=True)) == "2026-03-10T12:30:00Z"


@pytest.mark.parametrize(
    ("text", "mib"),
    [("4000", 4000), ("16G", 16384), ("16gb", 16384), ("1.5T", 1572864), ("1K", 1), ("500MB", 500), ("0", 0)],
)
def test_a_size(text: str, mib: int) -> None:
    assert sizes.mebibytes("--mem", text) == mib


@pytest.mark.parametrize("text", ["", "G", "-1G", "16X", "1e9", "9" * 15 + "P"])
def test_a_size_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(SlurmError, match="--mem"):
        sizes.mebibytes("--mem", text)


def test_sizes_as_slurm_writes_them() -> None:
    assert [sizes.written(mib) for mib in (0, 1500, 16384, 2**20)] == ["0", "1500M", "16G", "1T"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3,7],login", ["n1", "n2", "n3", "n7", "login"]),
        ("n[008-010]", ["n008", "n009", "n010"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_a_list_of_hosts(text: str, names: list[str]) -> None:
    assert hosts.expanded("--nodelist", text) == names


@pytest.mark.parametrize("text", ["n[1-3", "n[3-1]", "n[a-b]", "n]1[", "n[0-99999999]"])
def test_a_list_of_hosts_that_is_none(text: str) -> None:
    with pytest.raises(SlurmError, match="--nodelist"):
        hosts.expanded("--nodelist", text)


def test_hosts_as_slurm_writes_them() -> None:
    assert hosts.compressed(["n2", "n1", "n10", "n3", "login"]) == "login,n[1-3,10]"
    assert hosts.compressed(["n009", "n010", "n008"]) == "n[008-010]"
    assert hosts.compressed([]) == ""
    assert hosts.repeated([2, 2, 2, 1]) == "2(x3),1"


def test_gpus() -> None:
    assert _plain(gres.gpus("-G", "2")) == (2, None)
    assert _plain(gres.gpus("-G", "a100:4")) == (4, "a100")
    assert _plain(gres.gpus("-G", "a100")) == (1, "a100")
    found, others = gres.gres("--gres", "gpu:tesla:2,licence:3,nic")
    assert _plain(found) == (2, "tesla")
    assert others == {"licence": 3, "nic": 1}
    assert _plain(gres.gres("--gres", "gpu")[0]) == (1, None)
    assert _plain(gres.gres("--gres", "mps:25")[0]) == (0.25, None)
    assert gres.gres("--gres", "none") == (None, {})
    assert gres.licences("-L", "matlab:2,ansys") == {"matlab": 2, "ansys": 1}
    assert gres.per_task("--tres-per-task", "cpu=4")[0] == 4
    assert _plain(gres.per_task("--tres-per-task", "gres/gpu:a100=1")[1]) == (1, "a100")


def _plain(found: gres.Gpus | None) -> tuple[float, str | None]:
    assert found is not None
    return found.count, found.model


@pytest.mark.parametrize(
    "text", ["gpu:x:y", "gpu:-1", "gpu:1,gpu:2", "shard:2", "mps:150", "gpu:99999999999"]
)
def test_gpus_that_cannot_be_had(text: str) -> None:
    with pytest.raises(SlurmError, match="--gres"):
        gres.gres("--gres", text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("slurm-%j.out", "slurm-%j.out"),
        ("logs/%x_%A-%a.%N.%u.txt", "logs/%x_%A-%a.%N.%u.txt"),
        ("%J.%t.%n.%s", "%j.0.0.batch"),
        ("100%%", "100%%"),
        ("raw\\%j", "raw%%j"),
    ],
)
def test_names_of_output_files(text: str, meant: str) -> None:
    assert file_names.pattern("--output", text) == meant


@pytest.mark.parametrize("text", ["%q", "%4q", "trailing%", "trailing%4", ""])
def test_names_of_output_files_that_cannot_be_had(text: str) -> None:
    with pytest.raises(SlurmError, match="--output"):
        file_names.pattern("--output", text)


def test_numbers_in_names_of_output_files_are_filled_up_as_slurm_does_it() -> None:
    assert file_names.pattern("--output", "%x-%04a.out") == "%x-%4a.out"
    assert file_names.pattern("--output", "%3J.%2t.%9x.%99j") == "%3j.00.%x.%10j"
    assert file_names.pattern("--output", "%6j.out", array=True) == "%6A_%a.out"


def test_each_index_of_an_array_has_a_file_of_its_own() -> None:
    assert file_names.pattern("-o", "%%j-%x-%j.out", array=True) == "%%j-%x-%A_%a.out"
    assert file_names.pattern("-o", "%j-%a.out", array=True) == "%j-%a.out"


@pytest.mark.parametrize("index", [0, 999, 1000, 2**31 - 2])
@pytest.mark.parametrize("job_id", [1, 42, 1_147_482, 1_147_483, 2**31])
def test_each_index_of_an_array_has_a_number_of_its_own(job_id: int, index: int) -> None:
    assert array_ids.parted(array_ids.own_id(job_id, index)) == (job_id, index)
    assert array_ids.parted(job_id)[1] is None or job_id >= 10**9


def test_such_a_number_is_small_where_that_can_be() -> None:
    assert array_ids.own_id(42, 7) == 1000042007
    assert array_ids.own_id(1_147_482, 999) < 2**31 <= array_ids.own_id(1_147_483, 999)


def test_dependencies() -> None:
    assert needs("-d", "afterok:41:42,afterany:43") == ["afterok:41:42", "afterany:43"]
    assert needs("-d", "singleton") == ["singleton"]
    assert needs("-d", "41") == ["afterany:41"]
    for text in (
        "afterok:1?afterany:2",
        "after:41",
        "afterok",
        "afterok:x",
        "afterok:41_3",
        "afterok:1000041003",
        "expand:4",
        "singleton:4",
    ):
        with pytest.raises(SlurmError, match="-d"):
            needs("-d", text)


def test_constraints_are_labels() -> None:
    assert label_rules("-C", "a100&nvlink") == ["a100", "nvlink"]
    assert label_rules("-C", "zone=a,!spot") == ["zone=a", "!spot"]
    assert node_rules(["n1", "n2"], "n[3-4]") == ["tgpu/node in (n1, n2)", "tgpu/node notin (n3, n4)"]
    assert node_rules([], None) == []
    for text in ("a|b", "[rack1*2]", "a b", ""):
        with pytest.raises(SlurmError, match="-C"):
            label_rules("-C", text)


def test_a_partition_is_a_pool_where_there_are_several() -> None:
    assert pool_of("gpu", ["cpu", "gpu"]) == ("gpu", "")
    assert pool_of("long,gpu", ["cpu", "gpu"]) == ("gpu", "")
    assert pool_of("gpu", ["default"])[0] is None
    assert pool_of("gpu", ["default"])[1] == "--partition=gpu has no effect: all nodes are in one pool"
    assert pool_of("gpu", None) == ("gpu", "")
    with pytest.raises(SlurmError, match="there is no pool huge; there are cpu, gpu"):
        pool_of("huge", ["cpu", "gpu"])


def test_an_account_is_a_tenant_where_there_are_several() -> None:
    tenants = ["default", "lab", "lab/vision", "lab/text", "other/text"]
    assert tenant_of("lab/vision", tenants) == ("lab/vision", "")
    assert tenant_of("vision", tenants) == ("lab/vision", "")
    assert tenant_of("vision", ["default"])[0] is None
    for said, why in (("text", "could be lab/text, other/text"), ("nobody", "there is no tenant nobody")):
        with pytest.raises(SlurmError, match=why):
            tenant_of(said, tenants)


def test_what_a_job_gets_of_the_environment() -> None:
    environ = {"HOME": "/h", "USER": "ann", "EDITOR": "vi", "SECRET": "s"}
    every = dict
    assert exporting.environment(None, environ, every) == environ
    assert exporting.environment("ALL", environ, every) == environ
    assert exporting.environment("NONE", environ, every) == {"HOME": "/h", "USER": "ann"}
    login = {"HOME": "/h", "USER": "ann"}
    assert exporting.environment("EDITOR,A=1,GONE", environ, every) == {**login, "EDITOR": "vi", "A": "1"}
    assert exporting.environment("ALL,EDITOR=emacs", environ, every)["EDITOR"] == "emacs"
    assert exporting.environment("A='x,y',B=\"z\"", environ, every) == {**login, "A": "x,y", "B": "z"}
    assert exporting.of_file(b"A=1\0B=two words\0") == {"A": "1", "B": "two words"}
    with pytest.raises(SlurmError, match="--export-file"):
        exporting.of_file(b"nothing")


def test_options_are_read_as_getopt_reads_them() -> None:
    found, rest = KNOWN.read(
        ["-N2", "-n", "4", "--time=1:00", "--mem", "4G", "--exclusive", "job.sh", "-N", "9"]
    )
    assert found == [("nodes", "2"), ("ntasks", "4"), ("time", "1:00"), ("mem", "4G"), ("exclusive", None)]
    assert rest == ["job.sh", "-N", "9"]
    assert KNOWN.read(["-Hvt5"])[0] == [("hold", None), ("verbose", None), ("time", "5")]
    assert KNOWN.read(["--cpus-per-t=2", "--part", "x"])[0] == [("cpus-per-task", "2"), ("partition", "x")]
    assert KNOWN.read(["--workdir=/x"])[0] == [("chdir", "/x")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu-type=a100"], "--gpu-type is no option of Slurm's"),
        (["--partitoin=x"], "--partitoin is no option of Slurm's; did you mean --partition?"),
        (["--mem-p=1"], "--mem-p could be --mem-per-cpu, --mem-per-gpu: say which"),
        (["-Z"], "-Z is no option of Slurm's"),
        (["--time"], "--time needs a value"),
        (["-t"], "-t needs a value"),
        (["--hold=1"], "--hold takes no value; got '1'"),
    ],
)
def test_a_slip(words: list[str], said: str) -> None:
    with pytest.raises(SlurmError) as caught:
        KNOWN.read(words)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1-3,2", "1-3"),
        ("1,2,2%5", "1-2%5"),
        ("0-8:2,3,4", "0,2-4,6,8"),
        ("7,3,12", "7,3,12"),
        ("0-9:3%2", "0-9:3%2"),
        ("5-1,2", "5-1,2"),
        ("x", "x"),
    ],
)
def test_an_index_that_is_named_twice_is_meant_once(text: str, meant: str) -> None:
    assert arrays.once_each(text) == meant
