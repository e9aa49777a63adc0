// Any text is a layout, a change or a message, never a crash; a layout that is read is printed in a
// form that is read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "planner/evaluate.h"
#include "planner/search/settings.h"
#include "spec/cluster/device_cluster.h"

namespace {

longhaul::planner::Question Small() {
  longhaul::planner::Question question;
  longhaul::spec::Model& model = question.model;
  model.layers = 6;
  model.hidden = 256;
  model.ffn_hidden = 1024;
  model.heads = model.kv_heads = 4;
  model.head_dim = 64;
  model.vocabulary = 1000;
  model.sequence_length = 128;
  question.cluster = *longhaul::spec::ParseClusterName("h100-sxm:16");
  question.training.layout.data = 16;
  question.training.batch = {64, 1};
  return question;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::planner;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  search::Fixed fixed;
  static_cast<void>(search::ParseFixed(text, fixed).ok());
  Question question = Small();
  if (search::Change(text, question).ok()) {
    CHECK(CheckTraining(question.model, question.cluster, question.training).ok());
    Evaluator evaluator(question.model, question.cluster, question.training.software);
    CHECK(evaluator.Evaluate(question.training).step.count() > 0);
    search::Fixed again;
    CHECK(search::ParseFixed(search::LayoutText(question.training), again).ok());
  }
  return 0;
}
