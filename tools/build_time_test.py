"""tools/build_time reads ninja's log as ninja writes it, and says what it lacks."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import tempfile
import unittest

PATH = pathlib.Path(__file__).resolve().parent / "build_time"
LOADER = importlib.machinery.SourceFileLoader("build_time", str(PATH))
SPEC = importlib.util.spec_from_loader("build_time", LOADER)
build_time = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(build_time)

LOG = """# ninja log v5
0\t2000\t1\tsrc/base/CMakeFiles/longhaul_base.dir/text.cc.o\ta1
0\t9000\t1\tsrc/base/CMakeFiles/base_test.dir/text_test.cc.o\ta2
2000\t2500\t1\tsrc/base/liblonghaul_base.a\ta3
3000\t7000\t1\tgenerated/proto/job.pb.cc\ta4
3000\t7000\t1\tgenerated/proto/job.pb.h\ta4
9000\t12000\t1\tsrc/io/CMakeFiles/io_test.dir/files/file_test.cc.o\ta5
20000\t21000\t1\tsrc/base/CMakeFiles/base_test.dir/text_test.cc.o\ta2
broken line
x\ty\t1\tsrc/base/z.o\ta6
"""


class BuildTime(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.build = pathlib.Path(self.folder.name)
        (self.build / ".ninja_log").write_text(LOG, encoding="utf-8")

    def run_tool(self, *arguments):
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = build_time.main([str(self.build), *arguments])
        return code, output.getvalue(), errors.getvalue()

    def report(self, *arguments):
        code, output, _ = self.run_tool("--json", *arguments)
        self.assertEqual(code, 0)
        return json.loads(output)

    def test_the_newest_command_of_each_output_counts_once(self):
        report = self.report()
        # 2 + 1 (the newer one) + 0.5 + 4 (two outputs of one command) + 3
        self.assertEqual(report["commands"], 5)
        self.assertAlmostEqual(report["seconds"], 10.5)

    def test_commands_are_grouped_by_kind_and_module(self):
        report = self.report()
        kinds = {group["name"]: group["seconds"] for group in report["kinds"]}
        self.assertEqual(kinds, {"tests": 4, "generated code": 4, "libraries": 2,
                                 "archives and links": 0.5})
        modules = {group["name"]: group["seconds"] for group in report["modules"]}
        self.assertEqual(modules, {"base": 3.5, "io": 3, "generated": 4})

    def test_the_slowest_files_come_first_by_their_sources(self):
        files = self.report("--files", "2")["files"]
        self.assertEqual(files, [{"file": "io/files/file_test.cc", "seconds": 3},
                                 {"file": "base/text.cc", "seconds": 2}])

    def test_the_text_has_every_section(self):
        code, output, _ = self.run_tool()
        self.assertEqual(code, 0)
        for part in ["5 commands", "By kind", "By module", "Slowest files", "io/files/file"]:
            self.assertIn(part, output)

    def test_a_folder_without_a_log_is_a_mistake_of_its_user(self):
        (self.build / ".ninja_log").unlink()
        code, output, errors = self.run_tool()
        self.assertEqual((code, output), (2, ""))
        self.assertIn("has no .ninja_log: build it first", errors)


if __name__ == "__main__":
    unittest.main()
