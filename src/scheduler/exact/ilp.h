// An independent exact solver for tests: integer linear programs, solved by GLPK.
//
// Models are written from a problem's definition, never from the code under test. Where GLPK's
// library isn't installed (libglpk-dev), Ilp::Available() is false and such tests say so and
// skip.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace longhaul::scheduler {

class Ilp {
 public:
  using Terms = std::vector<std::pair<int, double>>;  // variable, coefficient

  static bool Available();

  Ilp();
  ~Ilp();
  Ilp(const Ilp&) = delete;
  Ilp& operator=(const Ilp&) = delete;

  // A variable that takes whole numbers in [lower, upper]; returns its number.
  int AddInteger(int64_t lower, int64_t upper);
  void AddAtMost(const Terms& terms, double bound);
  void AddAtLeast(const Terms& terms, double bound);
  void AddEqual(const Terms& terms, double value);

  // The least value of the sum, a whole number, or nothing when no solution exists. Aborts when the
  // solver gives up: a test must not pass on an unknown optimum.
  std::optional<int64_t> Minimize(const Terms& terms);

  // Minimises and then holds the sum at its least value: for lexicographic aims.
  std::optional<int64_t> MinimizeAndFix(const Terms& terms);

  int64_t Value(int variable) const;

 private:
  void AddRow(const Terms& terms, int kind, double bound);

  void* problem_ = nullptr;
};

// How many seeded cases such a test runs, and the first seed: LONGHAUL_EXACT_CASES and
// LONGHAUL_EXACT_SEED, else the default and 1.
int64_t ExactCases(int64_t by_default);
uint64_t ExactSeed();

}  // namespace longhaul::scheduler
