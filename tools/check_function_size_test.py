"""check_function_size.py counts the lines of functions, and of nothing else."""

import unittest

import check_function_size


def sizes(text):
    return {name: lines for name, _, lines in check_function_size.functions(text)}


class FunctionSize(unittest.TestCase):
    def test_a_function_and_its_first_line_are_found(self):
        text = "\nint Sum(int a,\n        int b) {\n  return a + b;\n}\n"
        found = check_function_size.functions(text)
        self.assertEqual(found, [("Sum", 3, 2)])

    def test_members_in_classes_in_namespaces_are_found(self):
        self.assertEqual(sizes("""namespace a {
class B : public C {
 public:
  B() : x_{1} {}
  int D() const override {
    return 1;
  }
};
int B::E() { return 2; }
}  // namespace a
"""), {"B": 0, "D": 2, "B::E": 0})

    def test_braces_in_texts_comments_and_macros_do_not_count(self):
        self.assertEqual(sizes("""#define OPEN {
int A() {
  const char* a = "}{";  // }
  char b = '}';
  const char* c = R"(}})";
}
int B() {
}
"""), {"A": 4, "B": 1})

    def test_a_lambda_belongs_to_its_function_and_tables_and_tests_are_left_out(self):
        self.assertEqual(sizes("""const int kTable[] = {
    1,
};
const auto kNext = std::map<int, int>({
    {1, 2},
});
TEST(A, B) {
  C();
}
void D() {
  const auto e = [](int f) {
    return f;
  };
}
"""), {"D": 4})


if __name__ == "__main__":
    unittest.main()
