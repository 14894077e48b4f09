"""The server's keys: signed, secret, never replaced, and whole or made anew."""

import stat

import pytest
from cryptography import x509

from fedsparse.errors import OptionError
from fedsparse.federation.folder import ServerFolder, SiteFolder
from fedsparse.federation.keys import VALID_DAYS, make_keys

HOSTS = ["server.example.org", "192.0.2.7"]


@pytest.fixture
def folder(tmp_path):
    made = ServerFolder(tmp_path / "federation")
    make_keys(made, HOSTS)
    return made


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.root.iterdir()}


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


def assert_whole(folder):
    certificate(folder.certificate).verify_directly_issued_by(certificate(folder.authority))


def test_the_authority_signs_the_server_for_its_hosts(folder):
    assert_whole(folder)
    own = certificate(folder.certificate)
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = names.get_values_for_type(x509.DNSName)
    addresses = [str(own) for own in names.get_values_for_type(x509.IPAddress)]
    assert hosts == ["server.example.org", "localhost"]
    assert addresses == ["192.0.2.7", "127.0.0.1", "::1"]
    assert (own.not_valid_after_utc - own.not_valid_before_utc).days == VALID_DAYS


def test_there_is_no_key_of_a_site(folder):
    assert sorted(contents(folder)) == ["ca.crt", "ca.key", "server.crt", "server.key"]


def test_nobody_else_may_look_into_the_folder_or_read_a_key(folder):
    assert permissions(folder.root) == 0o700
    assert [permissions(path) for path in (folder.key, folder.authority_key)] == [0o600, 0o600]


def test_a_folder_that_others_may_look_into_is_shut(tmp_path):
    open_to_all = ServerFolder(tmp_path / "open")
    open_to_all.root.mkdir(0o755)
    make_keys(open_to_all, HOSTS)
    assert permissions(open_to_all.root) == 0o700


def test_keys_that_exist_are_kept(folder):
    before = contents(folder)
    make_keys(folder, [])
    assert contents(folder) == before


@pytest.mark.parametrize("written", range(4))
@pytest.mark.parametrize("rest", ["absent", "empty"])
def test_what_a_broken_off_try_left_behind_is_made_anew(folder, written, rest):
    files = [folder.authority_key, folder.authority, folder.key, folder.certificate]
    for path in files[written:]:
        path.unlink() if rest == "absent" else path.write_bytes(b"")
    make_keys(folder, HOSTS)
    assert_whole(folder)
    make_keys(folder, [])


def test_a_new_certificate_comes_from_the_same_authority(folder):
    before = contents(folder)
    folder.certificate.unlink()
    make_keys(folder, ["elsewhere.example.org"])
    assert_whole(folder)
    assert contents(folder)["ca.crt"] == before["ca.crt"]


def test_an_authority_that_is_gone_is_told_and_not_replaced_unasked(folder):
    folder.authority_key.unlink()
    with pytest.raises(OptionError, match=r"do not belong together.*delete .*server.crt to make"):
        make_keys(folder, [])
    assert not folder.authority_key.exists()


MISTAKES = {
    "no host": ("new", [], "name the host by which sites reach the server with --host"),
    "other hosts": ("old", ["other"], "keeps its hosts; leave --host out"),
    "no ASCII": ("new", ["münchen.example.org"], '"münchen.example.org" is no host'),
}


@pytest.mark.parametrize(("which", "hosts", "told"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_and_leave_nothing_behind(folder, tmp_path, which, hosts, told):
    place = folder if which == "old" else ServerFolder(tmp_path / "new")
    with pytest.raises(OptionError, match=told):
        make_keys(place, hosts)
    assert which == "old" or not place.root.exists()


def test_a_half_made_folder_is_told_before_a_server_starts_on_it(folder):
    folder.certificate.write_bytes(b"")
    with pytest.raises(OptionError, match=r"server.crt, or it is empty; make keys with"):
        folder.check()


def test_a_folder_without_keys_is_told_what_to_do(tmp_path):
    with pytest.raises(OptionError, match=r"make keys with 'fedsparse federation keys'"):
        ServerFolder(tmp_path).check()
    with pytest.raises(OptionError, match=r"there is no .*ca.crt; ask the server's administrator"):
        SiteFolder(tmp_path).check()
    with pytest.raises(OptionError, match=r"holds 0 keys instead of one"):
        _ = SiteFolder(tmp_path).key
