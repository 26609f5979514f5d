"""Keys and certificates."""

from __future__ import annotations

import os
import subprocess
import unittest.mock
from pathlib import Path

import fencepost
from fencepost import Denied, Invalid, Unreachable

from .support import Case, program, until


class Guarded(Case):
    def setUp(self) -> None:
        super().setUp()
        self.auth = f"{self.folder}/auth.toml"
        self.key = self.new_key("orders", "acquire:orders/", "observe:orders/")

    def new_key(self, principal: str, *rights: str) -> str:
        allowed = [word for right in rights for word in ("--allow", right)]
        made = subprocess.run([program(), "key", principal, *allowed], capture_output=True, text=True, check=True)
        with open(self.auth, "a", encoding="utf-8") as file:
            file.write(made.stdout[made.stdout.index("[[key]]") :])
        return next(word for word in made.stdout.split() if word.startswith("fpk_"))

    def test_a_key_opens_what_it_is_for(self) -> None:
        service = self.serve("--auth-file", self.auth)
        locks = self.client(service, api_key=self.key)
        with locks.lock("orders/1") as lock:
            self.assertTrue(lock.is_held)
            with self.assertRaises(Denied):
                locks.force_release("orders/1")
        with self.assertRaises(Denied):
            locks.lock("other").acquire()
        with self.assertRaises(Denied) as caught:
            self.client(service).lock("orders/1").acquire()
        self.assertEqual(caught.exception.status, 401)
        self.assertNotIn(self.key, repr(vars(locks)) + str(caught.exception))

    def test_the_file_of_a_key_is_read_again_when_it_changes(self) -> None:
        service = self.serve("--auth-file", self.auth)
        file = Path(self.folder, "key")
        file.write_text(self.key + "\n")
        with unittest.mock.patch.dict(os.environ, FENCEPOST_API_KEY_FILE=str(file)):
            locks = self.client(service)
        with locks.lock("orders/1", ttl=6) as lock:
            old, self.auth = self.auth, f"{self.folder}/auth.new"
            key = self.new_key("orders", "acquire:orders/", "observe:orders/")
            os.replace(self.auth, old)

            def old_key_is_refused() -> bool:
                try:
                    self.client(service, api_key=self.key).inspect("orders/1")
                    return False
                except Denied:
                    return True

            until("rotated", old_key_is_refused)
            for half_written in ("", "no key at all\n"):
                file.write_text(half_written)
                self.assertEqual(locks._credential.header(), f"Bearer {self.key}", "while it is being written")
            file.write_text(key + "\n\n")
            self.assertEqual(locks._credential.header(), f"Bearer {key}")
            renewals = lock._keeper.renewals
            until("renewed with the new key", lambda: lock._keeper.renewals > renewals)
        with self.assertRaises(Invalid):
            fencepost.Client(service.url, api_key_file=f"{self.folder}/nothing")
        file.write_text("")
        with self.assertRaises(Invalid) as caught:
            fencepost.Client(service.url, api_key_file=str(file))
        self.assertIn(str(file), str(caught.exception))
        with self.assertRaises(Invalid):
            fencepost.Client(service.url, api_key="two\nlines")

    def test_tls_with_a_key_and_with_a_certificate(self) -> None:
        tls = os.environ["FENCEPOST_TEST_TLS"]
        with open(self.auth, "a", encoding="utf-8") as file:
            file.write('\n[[certificate]]\nprincipal = "billing"\nsan = "client.test"\nallow = ["acquire:*"]\n')
        service = self.serve(
            *("--auth-file", self.auth, "--client-ca", f"{tls}/ca.pem"),
            *("--tls-cert", f"{tls}/server.pem", "--tls-key", f"{tls}/server.key"),
        )
        url = service.url.replace("127.0.0.1", "localhost")
        self.assertTrue(url.startswith("https://"), url)
        with fencepost.Client(url, ca_file=f"{tls}/ca.pem", api_key=self.key) as locks:
            with locks.lock("orders/1", ttl=5) as lock:
                until("renewed", lambda: lock._keeper.renewals > 1)
        with fencepost.Client(
            url, ca_file=f"{tls}/ca.pem", cert_file=f"{tls}/client.pem", key_file=f"{tls}/client.key"
        ) as locks:
            locks.lock("billing/1").acquire().release()
        with fencepost.Client(url) as locks, self.assertRaises(Unreachable) as caught:
            locks.try_lock("orders/1")
        self.assertIn("certificate", str(caught.exception))
        with self.assertRaises(Invalid):
            fencepost.Client(url, ca_file=f"{self.folder}/nothing")
