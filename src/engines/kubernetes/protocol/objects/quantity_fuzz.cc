// Any bytes as a quantity: what is accepted is read back from its text, and rounding is consistent.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/protocol/objects/quantity.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Quantity> quantity = Quantity::Parse(text);
  if (!quantity.ok()) return 0;
  CHECK(*Quantity::Parse(ToString(*quantity)) == *quantity);
  CHECK(Quantity::FromUnits(quantity->RoundedUpUnits()) >= *quantity);
  CHECK(*quantity - *quantity == Quantity());
  return 0;
}
