// The order in which people count names: node-2 comes before node-10.
#pragma once

#include <string_view>

namespace longhaul::scheduler {

// Whether `a` comes before `b`: digit runs compare as numbers of any length, all else byte by byte;
// names that differ in leading zeros alone compare byte by byte. A strict total order.
bool NaturalLess(std::string_view a, std::string_view b);

}  // namespace longhaul::scheduler
