#include "checkpoint/formats/internal/torch_pickle.h"

#include "checkpoint/state.h"

namespace longhaul::checkpoint::internal {

using Kind = PickleValue::Kind;

std::optional<std::vector<int64_t>> SizeOf(const Pickle& pickle, const PickleValue& value) {
  constexpr int64_t kMaxExtent = int64_t{1} << 46;
  const PickleValue* list = &value;
  if (list->kind == Kind::kObject && pickle.NameOf(*list) == "torch.Size" &&
      pickle.ArgumentsOf(*list).items.size() == 1) {
    list = &pickle[pickle.ArgumentsOf(*list).items[0]];
  }
  if ((list->kind != Kind::kTuple && list->kind != Kind::kList) || list->items.size() > kMaxDims) {
    return std::nullopt;
  }
  std::vector<int64_t> numbers;
  for (const uint32_t item : list->items) {
    const PickleValue& number = pickle[item];
    if (number.kind != Kind::kInt || number.integer < 0 || number.integer > kMaxExtent) {
      return std::nullopt;
    }
    numbers.push_back(number.integer);
  }
  return numbers;
}

}  // namespace longhaul::checkpoint::internal
