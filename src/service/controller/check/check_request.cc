#include "service/controller/check/check_request.h"

#include <algorithm>

#include "base/text.h"
#include "runtime/node_check/plan.h"
#include "service/controller/rest/request_body.h"

namespace longhaul::service {

Result<std::vector<std::string>> ParseCheckRequest(std::string_view body) {
  std::vector<std::string> nodes;
  if (body.empty()) return nodes;
  ASSIGN_OR_RETURN(const nlohmann::ordered_json json, ParseObject(body));
  constexpr std::string_view kKnown[] = {"nodes"};
  RETURN_IF_ERROR(RefuseUnknown(json, kKnown));
  const auto found = json.find("nodes");
  if (found == json.end() || found->is_null()) return nodes;
  if (!found->is_array() || found->size() > runtime::node_check::kMostNodes) {
    return InvalidArgument("\"nodes\" must be a list of at most " +
                           WithThousands(runtime::node_check::kMostNodes) + " names");
  }
  for (const auto& name : *found) {
    const std::string text = name.is_string() ? name.get<std::string>() : "";
    if (text.empty() || text.size() > kLongestText) {
      return InvalidArgument(
          "\"nodes\" has something that is not the name of a node: " +
          Printable(name.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
                    80));
    }
    if (std::find(nodes.begin(), nodes.end(), text) != nodes.end()) {
      return InvalidArgument("\"nodes\" names " + Printable(text, 80) + " twice");
    }
    nodes.push_back(text);
  }
  return nodes;
}

}  // namespace longhaul::service
