// Any bytes as a state's tree, and as rules of layouts: refused, or used without harm.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "checkpoint/formats/state_tree.h"
#include "checkpoint/reshard/layout_rules.h"

using namespace longhaul::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tree = ParseTree(text, 8);
  if (tree.ok()) {
    CHECK(TreeNames(*tree, 8, '.').size() == 8);
    CHECK(ParseTree(tree->dump(-1, ' ', true), 8).ok());
  }
  (void)ParseLayout(text);
  (void)ParseNameRules(text);
  return 0;
}
