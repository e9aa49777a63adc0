"""check_classes.py counts the members of classes, and finds those that are too wide."""

import pathlib
import tempfile
import unittest

import check_classes

HEAD = "namespace longhaul::io {\n\n"
TAIL = "\n}  // namespace longhaul::io\n"


class CheckClasses(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def write(self, name, body):
        path = self.root / "src" / "io" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + body + TAIL)

    def counts(self):
        found = check_classes.widths(self.root)
        return {name: (len(width.files), width.lines) for name, width in found.items()}

    def findings(self, known=None):
        return check_classes.findings(check_classes.widths(self.root), known or {})

    def test_members_are_counted_by_class_with_their_lines(self):
        self.write("file.cc", """
File::File(int handle)
    : handle_(handle),
      open_(true) {
  Check();
}
File::~File() = default;
int File::handle() const { return handle_; }

std::optional<std::string> File::Read(size_t bytes,
                                      size_t from) const {
  if (bytes == 0) {
    return {};
  }
  return Text(bytes);
}

File& File::operator=(File&& other) noexcept {
  return *this;
}

void File::Lock::Release() {
}
""")
        self.assertEqual(self.counts(), {"longhaul::io::File": (1, 5 + 1 + 7 + 3),
                                         "longhaul::io::File::Lock": (1, 2)})

    def test_what_is_no_member_is_not_counted(self):
        self.write("file.cc", """
using std::chrono::seconds;
constexpr int kMost = 3;
const std::map<std::string, int> kNames = {
    {"a", Name::Of(1)},
};

// As File::Open() { says.
int Free(int value) {
  return File::Default(value);
}
std::string Declared(const File::Lock& lock);
class Local {
  void File();
};
""")
        self.assertEqual(self.counts(), {})

    def test_tests_are_not_counted(self):
        for name in ["file_test.cc", "file_fuzz.cc", "file_bench.cc"]:
            self.write(name, "void File::Open() {\n}\n")
        self.assertEqual(self.counts(), {})

    def test_the_same_name_in_another_namespace_is_another_class(self):
        self.write("a.cc", "void File::A() {\n}\n")
        self.write("b.cc", "}\n\nnamespace longhaul::sim {\n\nvoid File::B() {\n}\n")
        self.assertEqual(sorted(self.counts()), ["longhaul::io::File", "longhaul::sim::File"])

    def test_a_third_file_is_found(self):
        for name in ["a.cc", "b.cc"]:
            self.write(name, "void File::A() {\n}\n")
        self.assertEqual(self.findings(), [])
        self.write("c.cc", "void File::C() {\n}\n")
        found = self.findings()
        self.assertEqual(len(found), 1, found)
        self.assertIn("longhaul::io::File has members in 3 files", found[0])

    def test_too_many_lines_are_found(self):
        body = "  Work();\n" * 398
        self.write("a.cc", f"void File::A() {{\n{body}}}\n\nvoid File::B() {{\n{body}}}\n")
        self.assertEqual(self.findings(), [])
        self.write("b.cc", "void File::C() {}\n")
        found = self.findings()
        self.assertEqual(len(found), 1, found)
        self.assertIn("801 lines", found[0])

    def test_a_known_class_may_not_grow_and_must_leave_the_list(self):
        for name in ["a.cc", "b.cc", "c.cc"]:
            self.write(name, "void File::A() {\n}\n")
        name = "longhaul::io::File"
        self.assertEqual(self.findings({name: (3, 800)}), [])
        self.assertIn("lower its entry", self.findings({name: (4, 800)})[0])
        self.write("d.cc", "void File::D() {\n}\n")
        self.assertIn("4 files, more than 3", self.findings({name: (3, 800)})[0])
        for name_of_file in ["c.cc", "d.cc"]:
            self.write(name_of_file, "")
        self.assertIn("remove its entry", self.findings({name: (3, 800)})[0])


if __name__ == "__main__":
    unittest.main()
