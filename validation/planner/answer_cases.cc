// Answers planner cases, one JSON line each, without the rest of longhaul: what `longhaul plan
// --case -` does, for score.py and for fitting, and far quicker to build.
#include <iostream>
#include <optional>
#include <string>

#include "planner/case.h"
#include "planner/error_band.h"
#include "planner/evaluate.h"

int main() {
  using namespace longhaul::planner;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::optional<Evaluator> evaluator;  // of one case: its choices share the layers' costs
    const auto evaluate = [&](const Question& question) {
      if (!evaluator) {
        evaluator.emplace(question.model, question.cluster, question.training.software);
      }
      return evaluator->Evaluate(question.training);
    };
    const auto band = [](const Case& answered, const Evaluation& evaluation) {
      return ErrorBand(answered.question, answered.assumed.size(), evaluation.step);
    };
    std::cout << AnswerCase(line, evaluate, band) << std::endl;
  }
  return 0;
}
