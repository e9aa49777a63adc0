// Any bytes as a pickle that may name a few classes: refused or read, and what was read holds only
// values of its own and names of the list.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/pickle/pickle.h"

using longhaul::Pickle;
using longhaul::PickleGlobal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr PickleGlobal kAllowed[] = {
      {"collections.OrderedDict", true}, {"torch.Size"}, {"torch._utils._rebuild_tensor_v2"}};
  constexpr size_t kMaxValues = 100'000;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto pickle = Pickle::Parse(bytes, {kMaxValues, kAllowed});
  if (!pickle.ok()) return 0;
  const auto& root = pickle->root();
  if (root.kind == longhaul::PickleValue::Kind::kObject) {
    CHECK(std::any_of(std::begin(kAllowed), std::end(kAllowed), [&](const PickleGlobal& global) {
      return global.name == pickle->NameOf(root);
    }));
    (void)pickle->ArgumentsOf(root);
    (void)pickle->StateOf(root);
  }
  return 0;
}
