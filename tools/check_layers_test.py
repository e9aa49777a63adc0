"""check_layers.py sees what is planted, and nothing else."""

import pathlib
import tempfile
import unittest

import check_layers

LAYERS = """order: base io runtime bin
base base:
io io: base
runtime runtime: base io
runtime runtime_probe: runtime
"""
TESTS = "io/file_test.cc: base io\n"


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for module in ["base", "io", "runtime"]:
            self.write(f"src/{module}/README.md", "# A module\n")
        self.write("src/base/status.h", "#pragma once\n#include <string>\n")
        self.write("src/io/file.h", '#pragma once\n#include "base/status.h"\n')
        self.write("src/io/file_test.cc", '#include "io/file.h"\n#include <gtest/gtest.h>\n')
        self.write("src/runtime/agent.h",
                   '#pragma once\n#include "io/file.h"\n#include "longhaul.h"\n')

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def findings(self, layers=LAYERS):
        return check_layers.Checker(self.root, check_layers.Layers(layers, TESTS)).run()

    def expect(self, *parts):
        findings = self.findings()
        self.assertEqual(len(findings), 1, findings)
        for part in parts:
            self.assertIn(part, findings[0])

    def test_a_clean_tree_has_no_findings(self):
        self.assertEqual(self.findings(), [])

    def test_an_upward_include_is_found_with_place_and_both_modules(self):
        self.write("src/io/file.h",
                   '#pragma once\n#include "base/status.h"\n\n#include "runtime/agent.h"\n')
        self.expect("src/io/file.h:4", "'io'", "'runtime'", "above")

    def test_an_upward_include_of_a_test_is_found(self):
        self.write("src/io/file_test.cc", '#include "runtime/agent.h"\n')
        self.expect("src/io/file_test.cc:1", "above")

    def test_an_undeclared_include_is_found(self):
        layers = LAYERS.replace("runtime runtime: base io", "runtime runtime: base")
        findings = self.findings(layers)
        self.assertEqual(len(findings), 1, findings)
        self.assertIn("DEPENDS lack 'io'", findings[0])

    def test_a_test_may_include_only_what_it_lists(self):
        self.write("src/base/status_test.cc", "#include <gtest/gtest.h>\n")
        self.write("src/runtime/agent_test.cc", '#include "io/file.h"\n')
        tests = TESTS + "base/status_test.cc: base\nruntime/agent_test.cc: base runtime\n"
        layers = check_layers.Layers(LAYERS, tests)
        findings = check_layers.Checker(self.root, layers).run()
        self.assertEqual(len(findings), 1, findings)
        self.assertIn("the test includes \"io/file.h\" but its DEPENDS lack 'io'", findings[0])

    def test_an_upward_dependency_is_found_without_an_include(self):
        findings = self.findings(LAYERS.replace("io io: base", "io io: base runtime_probe"))
        self.assertEqual(len(findings), 1, findings)
        self.assertIn("module 'io' depends on 'runtime'", findings[0])

    def test_another_modules_internal_folder_is_closed(self):
        self.write("src/io/internal/poll.h", "#pragma once\n")
        self.write("src/runtime/agent.h", '#pragma once\n#include "io/internal/poll.h"\n')
        self.expect("internal to module 'io'")

    def test_a_missing_header_is_found(self):
        self.write("src/io/file.h", '#pragma once\n#include "base/gone.h"\n')
        self.expect('"base/gone.h" does not exist')

    def test_an_include_without_its_module_is_found(self):
        self.write("src/base/text.h", '#pragma once\n#include "status.h"\n')
        self.expect("does not begin with a module")

    def test_gtest_outside_a_test_is_found(self):
        self.write("src/io/file.h", "#pragma once\n#include <gtest/gtest.h>\n")
        self.expect("<gtest/gtest.h> outside a test")

    def test_a_header_without_a_guard_is_found(self):
        for text in ["", "#include <string>\n#pragma once\n", "// #pragma once\nint x;\n"]:
            self.write("src/base/status.h", text)
            self.expect("src/base/status.h", "#pragma once")

    def test_sizes_and_names_are_checked(self):
        self.write("src/base/long.cc", "\n" * 801)
        self.write("src/base/wide.cc", "x" * 101 + "\n")
        self.write("src/base/utils.h", "#pragma once\n")
        self.write("src/io/README.md", "\n" * 61)
        (self.root / "src/runtime/README.md").unlink()
        findings = "\n".join(self.findings())
        for part in ["long.cc: has 801 lines", "wide.cc:1: has 101 columns", "'utils'",
                     "src/io/README.md: is longer", "src/runtime: the module has no README.md"]:
            self.assertIn(part, findings)
        self.assertEqual(len(findings.splitlines()), 5)

    def test_a_crowded_folder_is_found(self):
        for number in range(40):
            self.write(f"src/base/part_{number}.h", "#pragma once\n")
        self.expect("src/base: holds 42 files")


if __name__ == "__main__":
    unittest.main()
