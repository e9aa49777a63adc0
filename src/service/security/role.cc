#include "service/security/role.h"

#include <array>
#include <utility>

#include "base/text.h"

namespace longhaul::service {
namespace {

constexpr std::array<std::pair<Role, std::string_view>, 3> kRoles = {{
    {Role::kView, "view"},
    {Role::kOperate, "operate"},
    {Role::kAdminister, "administer"},
}};

}  // namespace

std::string_view NameOf(Role role) { return kRoles[static_cast<size_t>(role)].second; }

Result<Role> ParseRole(std::string_view word) {
  for (const auto& [role, name] : kRoles) {
    if (word == name) return role;
  }
  return InvalidArgument("the role is '" + Printable(word, 40) +
                         "', expected view, operate or administer");
}

}  // namespace longhaul::service
