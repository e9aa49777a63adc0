#include "engines/slurm/node_calls.h"

#include <algorithm>

#include "engines/slurm/slurm_text.h"
#include "service/client/rest_client.h"

namespace longhaul::engines::slurm {
namespace {

// As long as a run may wait for a node that joins.
constexpr const char* kJoinTokenLife = "7d";

std::string NodePath(const std::string& node, const std::string& what) {
  return "/v1/nodes/" + service::UrlEncode(AgentNameOf(node)) + "/" + what;
}

}  // namespace

Result<std::string> MakeJoinToken(const service::Endpoint& endpoint, const std::string& node) {
  service::RestClient client(endpoint);
  ASSIGN_OR_RETURN(
      const service::Json answer,
      client.Post("/v1/join-tokens", {{"node", AgentNameOf(node)}, {"expires", kJoinTokenLife}}));
  const auto token = answer.find("token");
  if (token == answer.end() || !token->is_string()) {
    return InternalError("the controller gave no join token for " + node);
  }
  return token->get<std::string>();
}

Status DrainNodes(const service::Endpoint& endpoint, const std::vector<std::string>& nodes) {
  service::RestClient client(endpoint);
  for (const std::string& node : nodes) {
    const Status drained =
        client.Post(NodePath(node, "drain"), {{"reason", "the run gives it back to Slurm"}})
            .status();
    // An agent that has not joined yet has no work.
    if (!drained.ok() && drained.code() != Code::kNotFound) return drained;
  }
  return {};
}

Status UncordonNode(const service::Endpoint& endpoint, const std::string& node) {
  service::RestClient client(endpoint);
  return client.Post(NodePath(node, "uncordon"), {{"reason", "Slurm gives it to the run again"}})
      .status();
}

Result<std::set<std::string>> BusyAgents(const service::Endpoint& endpoint) {
  service::RestClient client(endpoint);
  ASSIGN_OR_RETURN(const service::Json answer, client.Get("/v1/nodes"));
  const auto list = answer.is_object() ? answer.find("nodes") : answer.end();
  const service::Json& all = list != answer.end() ? *list : answer;
  std::set<std::string> busy;
  for (const service::Json& each : all) {
    if (!each.is_object() || !each.contains("jobs") || each["jobs"].empty()) continue;
    busy.insert(each.value("name", ""));
  }
  return busy;
}

Result<bool> AreIdle(const service::Endpoint& endpoint, const std::vector<std::string>& nodes) {
  ASSIGN_OR_RETURN(const std::set<std::string> busy, BusyAgents(endpoint));
  return std::none_of(nodes.begin(), nodes.end(), [&busy](const std::string& node) {
    return busy.contains(AgentNameOf(node));
  });
}

}  // namespace longhaul::engines::slurm
