#include "proto/fault_class.h"

#include "base/check.h"

namespace longhaul::proto {

namespace {

constexpr struct {
  FaultClass fault;
  std::string_view name;
} kNames[] = {
    {FaultClass::kProcess, "process"}, {FaultClass::kNode, "node"},
    {FaultClass::kHang, "hang"},       {FaultClass::kError, "error"},
    {FaultClass::kStart, "start"},     {FaultClass::kStorage, "storage"},
    {FaultClass::kNumeric, "numeric"}, {FaultClass::kDevice, "device"},
};

}  // namespace

std::string_view NameOf(FaultClass fault) {
  for (const auto& row : kNames) {
    if (row.fault == fault) return row.name;
  }
  CHECK(false);
  return {};
}

std::optional<FaultClass> FaultClassOf(std::string_view name) {
  for (const auto& row : kNames) {
    if (row.name == name) return row.fault;
  }
  return std::nullopt;
}

}  // namespace longhaul::proto
