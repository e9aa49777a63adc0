#include "scheduler/exact/ilp.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "base/check.h"

#ifdef LONGHAUL_GLPK
#include <glpk.h>
#endif

namespace longhaul::scheduler {

#ifdef LONGHAUL_GLPK

namespace {

glp_prob* Problem(void* problem) { return static_cast<glp_prob*>(problem); }

}  // namespace

bool Ilp::Available() { return true; }

Ilp::Ilp() : problem_(glp_create_prob()) {
  glp_term_out(GLP_OFF);
  glp_set_obj_dir(Problem(problem_), GLP_MIN);
}

Ilp::~Ilp() { glp_delete_prob(Problem(problem_)); }

int Ilp::AddInteger(int64_t lower, int64_t upper) {
  const int column = glp_add_cols(Problem(problem_), 1);
  glp_set_col_kind(Problem(problem_), column, GLP_IV);
  glp_set_col_bnds(Problem(problem_), column, lower == upper ? GLP_FX : GLP_DB,
                   static_cast<double>(lower), static_cast<double>(upper));
  return column;
}

void Ilp::AddRow(const Terms& terms, int kind, double bound) {
  // GLPK counts from 1 and does not read the element 0 of the two arrays.
  std::vector<int> columns(1);
  std::vector<double> coefficients(1);
  for (const auto& [variable, coefficient] : terms) {
    columns.push_back(variable);
    coefficients.push_back(coefficient);
  }
  const int row = glp_add_rows(Problem(problem_), 1);
  glp_set_row_bnds(Problem(problem_), row, kind, bound, bound);
  glp_set_mat_row(Problem(problem_), row, static_cast<int>(terms.size()), columns.data(),
                  coefficients.data());
}

void Ilp::AddAtMost(const Terms& terms, double bound) { AddRow(terms, GLP_UP, bound); }
void Ilp::AddAtLeast(const Terms& terms, double bound) { AddRow(terms, GLP_LO, bound); }
void Ilp::AddEqual(const Terms& terms, double value) { AddRow(terms, GLP_FX, value); }

std::optional<int64_t> Ilp::Minimize(const Terms& terms) {
  const int columns = glp_get_num_cols(Problem(problem_));
  for (int column = 1; column <= columns; ++column) {
    glp_set_obj_coef(Problem(problem_), column, 0);
  }
  for (const auto& [variable, coefficient] : terms) {
    glp_set_obj_coef(Problem(problem_), variable, coefficient);
  }
  glp_iocp options;
  glp_init_iocp(&options);
  // Without the presolver `glp_intopt` requires that the linear relaxation has been solved before.
  options.presolve = GLP_ON;
  options.gmi_cuts = GLP_ON;
  options.mir_cuts = GLP_ON;
  options.msg_lev = GLP_MSG_OFF;
  const int error = glp_intopt(Problem(problem_), &options);
  if (error == GLP_ENOPFS || error == GLP_ENODFS) return std::nullopt;
  CHECK(error == 0) << "GLPK gave up with code " << error;
  const int status = glp_mip_status(Problem(problem_));
  if (status == GLP_NOFEAS) return std::nullopt;
  CHECK(status == GLP_OPT) << "GLPK's status is " << status;
  return std::llround(glp_mip_obj_val(Problem(problem_)));
}

int64_t Ilp::Value(int variable) const {
  return std::llround(glp_mip_col_val(Problem(problem_), variable));
}

#else

bool Ilp::Available() { return false; }
Ilp::Ilp() = default;
Ilp::~Ilp() = default;
int Ilp::AddInteger(int64_t, int64_t) { return 0; }
void Ilp::AddRow(const Terms&, int, double) {}
void Ilp::AddAtMost(const Terms&, double) {}
void Ilp::AddAtLeast(const Terms&, double) {}
void Ilp::AddEqual(const Terms&, double) {}
std::optional<int64_t> Ilp::Minimize(const Terms&) { return std::nullopt; }
int64_t Ilp::Value(int) const { return 0; }

#endif

std::optional<int64_t> Ilp::MinimizeAndFix(const Terms& terms) {
  const std::optional<int64_t> least = Minimize(terms);
  if (least) AddEqual(terms, static_cast<double>(*least));
  return least;
}

int64_t ExactCases(int64_t by_default) {
  const char* text = std::getenv("LONGHAUL_EXACT_CASES");
  return text == nullptr ? by_default : std::stoll(text);
}

uint64_t ExactSeed() {
  const char* text = std::getenv("LONGHAUL_EXACT_SEED");
  return text == nullptr ? 1 : std::stoull(text);
}

}  // namespace longhaul::scheduler
