// Distinct types for ids: a JobId cannot be passed where a NodeId is expected.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

namespace longhaul {

template <typename Tag>
class TextId {
 public:
  TextId() = default;
  explicit TextId(std::string value) : value_(std::move(value)) {}

  const std::string& value() const { return value_; }
  bool empty() const { return value_.empty(); }

  friend auto operator<=>(const TextId&, const TextId&) = default;
  friend std::ostream& operator<<(std::ostream& out, const TextId& id) { return out << id.value_; }

 private:
  std::string value_;
};

using JobId = TextId<struct JobIdTag>;
using NodeId = TextId<struct NodeIdTag>;

}  // namespace longhaul
