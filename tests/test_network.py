"""Tests reach this machine and nobody else."""

import socket
import urllib.error
import urllib.request

import pytest


@pytest.mark.parametrize("address", ["https://pypi.org/simple/", "http://8.8.8.8/"])
def test_strangers_are_out_of_reach(address):
    with pytest.raises(urllib.error.URLError, match=r"tests have no network|Name or service|resolution"):
        urllib.request.urlopen(address, timeout=10)


def test_this_machine_can_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()
