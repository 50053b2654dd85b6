"""Signals to real processes."""

import os
import signal
import threading

import pytest

from aon.lab.system.signals import noted_interrupts, stop_requests


def test_the_first_signal_is_a_request_and_the_second_an_order():
    before = signal.getsignal(signal.SIGINT)
    with stop_requests() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_there_are_no_handlers():
    seen = []

    def ask():
        with stop_requests() as stop:
            seen.append(stop.is_set())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert seen == [False]


def test_a_signal_that_the_parent_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requests() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.wait(0.2)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_is_noted_before_it_is_raised():
    before = signal.getsignal(signal.SIGINT)
    with noted_interrupts() as interrupted:
        assert not interrupted.is_set()
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            os.kill(os.getpid(), signal.SIGINT)
        assert interrupted.is_set()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_the_parent_ignores_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noted_interrupts() as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            assert not interrupted.wait(0.2)
    finally:
        signal.signal(signal.SIGINT, before)
