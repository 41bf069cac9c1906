"""TLS by one setting: real handshakes with the cluster's own authority, with another one, and with files."""

import asyncio
import ssl
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from tests.wiring.cluster_server import cluster
from tgpu.config.settings import Settings, SettingsError
from tgpu.store.memory import MemoryStore
from tgpu.wiring import cluster_ca
from tgpu.wiring.tls import FileTls, OwnTls, ServerTls, certified_names, server_tls
from tgpu.wiring.trust import client_context


def shake_hands(server: ServerTls, client: ssl.SSLContext, name: str = "localhost") -> dict[str, object]:
    """The certificate that the client saw; raises what the client raises."""

    async def meet() -> dict[str, object]:
        listening = await asyncio.start_server(
            lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=server.context
        )
        port = listening.sockets[0].getsockname()[1]
        async with listening:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
            seen = writer.get_extra_info("peercert") or {}
            writer.close()
            return dict(seen)

    return asyncio.run(meet())


def own_tls(home: Path, store: MemoryStore | None = None, **settings: str) -> OwnTls:
    chosen = Settings(home=home, tls="auto", **settings)
    made = asyncio.run(server_tls(chosen, store or MemoryStore(), "https://gpu1.example.org:7480"))
    assert isinstance(made, OwnTls)
    return made


def openssl_pair(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", key, "-out", certificate, "-days", "2", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName=DNS:{name}"],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def test_the_port_is_plain_unless_said_otherwise(tmp_path: Path) -> None:
    assert asyncio.run(server_tls(Settings(home=tmp_path), MemoryStore(), "http://localhost")) is None


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "gpu1.example.org"])
def test_a_server_is_known_under_all_its_names(tmp_path: Path, name: str) -> None:
    tls = own_tls(tmp_path)
    assert shake_hands(tls, client_context(tls.ca_pem), name)["subject"] == (
        (("commonName", "gpu1.example.org"),),
    )


def test_a_name_it_does_not_have_is_not_believed(tmp_path: Path) -> None:
    tls = own_tls(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(tls, client_context(tls.ca_pem), "gpu2.example.org")


def test_all_servers_of_a_cluster_have_one_authority_and_others_another(tmp_path: Path) -> None:
    store = MemoryStore()
    first, second = own_tls(tmp_path, store), own_tls(tmp_path, store)
    assert first.ca_pem == second.ca_pem
    shake_hands(first, second.dialing())
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(first, own_tls(tmp_path).dialing())
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(first, client_context(None))


def test_a_server_that_listens_everywhere_is_known_by_its_addresses(tmp_path: Path) -> None:
    names = certified_names(Settings(home=tmp_path, tls="auto", listen="0.0.0.0:7480"), "https://gpu1:7480")
    assert names[0] == "gpu1"
    assert {"localhost", "127.0.0.1", "::1"} <= set(names)
    assert len(names) == len(set(names))
    listed = Settings(home=tmp_path, tls="auto", listen="192.0.2.7:7480")
    assert "192.0.2.7" in certified_names(listed, "https://gpu1:7480")


def test_a_certificate_is_renewed_in_a_running_server_before_it_ends() -> None:
    authority = cluster_ca.load(cluster_ca.found("c", cluster_ca.utc_now()))
    later = timedelta()
    tls = OwnTls(authority, ["localhost"], lambda: cluster_ca.utc_now() - timedelta(days=340) + later)
    first = shake_hands(tls, tls.dialing())
    assert not tls.refresh()
    assert shake_hands(tls, tls.dialing())["serialNumber"] == first["serialNumber"]
    later = timedelta(days=336)
    assert tls.refresh()
    second = shake_hands(tls, tls.dialing())
    assert second["serialNumber"] != first["serialNumber"]
    assert not tls.refresh()


def test_files_of_the_house_are_used_and_read_again_when_they_change(tmp_path: Path) -> None:
    certificate, key = openssl_pair(tmp_path)
    chosen = Settings(home=tmp_path, tls_cert=str(certificate), tls_key=str(key))
    tls = asyncio.run(server_tls(chosen, MemoryStore(), "https://localhost"))
    assert isinstance(tls, FileTls)
    assert tls.ca_pem is None
    first = shake_hands(tls, ssl.create_default_context(cafile=certificate))
    assert not tls.refresh()
    openssl_pair(tmp_path)
    assert tls.refresh()
    assert shake_hands(tls, ssl.create_default_context(cafile=certificate)) != first
    key.write_text("half a file")
    with pytest.raises(SettingsError, match="both must be PEM files, and belong together"):
        tls.refresh()
    shake_hands(tls, ssl.create_default_context(cafile=certificate))


def test_files_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path) -> None:
    certificate, _ = openssl_pair(tmp_path)
    chosen = Settings(home=tmp_path, tls_cert=str(certificate), tls_key=str(tmp_path / "none.pem"))
    with pytest.raises(SettingsError, match=r"none\.pem cannot be used: No such file"):
        asyncio.run(server_tls(chosen, MemoryStore(), "https://localhost"))


def test_private_key_that_every_user_can_read_is_refused(tmp_path: Path) -> None:
    certificate, key = openssl_pair(tmp_path)
    chosen = Settings(home=tmp_path, tls_cert=str(certificate), tls_key=str(key))
    key.chmod(0o644)
    with pytest.raises(SettingsError, match=f"is open to every user; run: chmod o= {key}"):
        asyncio.run(server_tls(chosen, MemoryStore(), "https://localhost"))
    key.chmod(0o640)  # a group may be meant to read it
    asyncio.run(server_tls(chosen, MemoryStore(), "https://localhost"))


def test_old_versions_of_tls_are_not_spoken(tmp_path: Path) -> None:
    assert own_tls(tmp_path).context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_server_keeps_its_authority_over_restarts(tmp_path: Path) -> None:
    store = MemoryStore()
    with cluster(tmp_path, store) as before:
        pem = before.entrance.ca_pem
    with cluster(tmp_path, store) as after, after.http() as client:
        assert client.get("/ca.pem").text == pem
