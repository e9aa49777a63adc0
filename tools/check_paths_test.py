"""check_paths.py finds dead paths and links that are planted, and nothing else."""

import pathlib
import tempfile
import unittest

import check_paths


class CheckPaths(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("README.md",
                   "Read [the guide](docs/guide.md#first-steps) and `src/io/file.h`.\n")
        self.write("docs/guide.md", "# Guide\n\n## First steps\n\nSee `io/file.{h,cc}`.\n")
        self.write("src/io/file.h", "// Files. See docs/guide.md, file_*.cc and internal/name.h.\n")
        self.write("src/io/file.cc", '// What it does: file.h.\nauto kName = "io/gone.h";\n')
        self.write("src/io/file_test.cc", "// Tests.\n")
        self.write("src/io/internal/name.h", "/* As ../file.h\n   does. */\n")
        self.write("tools/check.py", '"""Reads src/io/file.h."""\n\nNAME = "io/gone.h"\n')

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def findings(self):
        files = [str(path.relative_to(self.root)) for path in self.root.rglob("*")
                 if path.is_file()]
        return check_paths.Checker(self.root, files).run()

    def expect(self, *parts):
        findings = self.findings()
        self.assertEqual(len(findings), 1, findings)
        for part in parts:
            self.assertIn(part, findings[0])

    def test_a_clean_tree_has_no_findings(self):
        self.assertEqual(self.findings(), [])

    def test_a_dead_path_in_a_comment_is_found_with_its_line(self):
        self.write("src/io/file.cc", "int x;\n// See io/gone.h.\n")
        self.expect("src/io/file.cc:2", "io/gone.h")

    def test_a_document_that_does_not_exist_is_found_in_a_message(self):
        self.write("src/io/file.cc", 'auto kName = "see docs/gone.md";\n')
        self.expect("src/io/file.cc:1", "docs/gone.md")

    def test_a_dead_path_in_the_second_line_of_a_block_comment_is_found(self):
        self.write("src/io/internal/name.h", "/* As\n   io/gone.h does. */\n")
        self.expect("src/io/internal/name.h:2", "io/gone.h")

    def test_a_dead_path_in_a_document_is_found(self):
        self.write("docs/guide.md", "# Guide\n\n## First steps\n\nSee `src/io/gone.cc`.\n")
        self.expect("docs/guide.md:5", "src/io/gone.cc")

    def test_a_dead_folder_is_found(self):
        self.write("docs/guide.md", "# Guide\n\n## First steps\n\nSee `io/depths`.\n")
        self.expect("docs/guide.md:5", "io/depths")

    def test_a_dead_name_without_a_folder_is_found(self):
        self.write("src/io/file.cc", "// See gone.h.\n")
        self.expect("src/io/file.cc:1", "gone.h")

    def test_a_dead_path_in_a_docstring_and_in_a_comment_of_python_is_found(self):
        self.write("tools/check.py", '"""Reads io/gone.h."""\n\nNAME = 1  # as io/lost.h\n')
        findings = self.findings()
        self.assertEqual(len(findings), 2, findings)
        self.assertIn("tools/check.py:1", findings[0])
        self.assertIn("tools/check.py:3", findings[1])

    def test_a_dead_path_in_a_comment_of_cmake_is_found(self):
        self.write("CMakeLists.txt", "# See src/io/gone.h.\nadd_subdirectory(src/io/lost.h)\n")
        self.expect("CMakeLists.txt:1", "src/io/gone.h")

    def test_a_dead_link_is_found(self):
        self.write("README.md", "Read [the guide](docs/guides.md).\n")
        self.expect("README.md:1", "docs/guides.md", "no file")

    def test_a_link_to_a_heading_that_does_not_exist_is_found(self):
        self.write("README.md", "Read [the guide](docs/guide.md#last-steps).\n")
        self.expect("README.md:1", "no such heading")

    def test_an_image_that_does_not_exist_is_found(self):
        self.write("README.md", "![a picture](docs/picture.svg)\n")
        self.expect("README.md:1", "docs/picture.svg")

    def test_web_links_and_included_headers_are_left_alone(self):
        self.write("README.md", "[us](https://a.org/b.h), https://a.org/src/c.h, <sys/mman.h>\n")
        self.assertEqual(self.findings(), [])


if __name__ == "__main__":
    unittest.main()
