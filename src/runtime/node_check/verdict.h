// What a node check says about a part.
#pragma once

#include <cstdint>
#include <string_view>

namespace longhaul::runtime::node_check {

// In ascending order of severity.
enum class Verdict : uint8_t { kGood, kUndecided, kSlow, kBad };
std::string_view ToString(Verdict verdict);

}  // namespace longhaul::runtime::node_check
