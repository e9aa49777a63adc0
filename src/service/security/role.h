// What a caller of the REST API may do.
//
// Roles are ordered: each permits what the ones before it permit.
//   view        read jobs, nodes, queues, notifications, logs and metrics
//   operate     submit, stop, scale and reorder jobs; read the values of their environments
//   administer  change nodes, limits of queues, reservations and tokens
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace longhaul::service {

enum class Role { kView, kOperate, kAdminister };

std::string_view NameOf(Role role);
// Parses the names above; the error lists them.
Result<Role> ParseRole(std::string_view word);

constexpr bool Permits(Role has, Role needs) {
  return static_cast<int>(has) >= static_cast<int>(needs);
}

// The holder of a token that was accepted.
struct Identity {
  std::string name;
  Role role = Role::kView;
};

}  // namespace longhaul::service
