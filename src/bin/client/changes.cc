#include <cstdio>
#include <utility>

#include "base/text.h"
#include "bin/client/client.h"

namespace longhaul::bin::client {
namespace {

int Apply(RestClient& client, const Options& options) {
  Json changes = Json::parse(options.changes, nullptr, /*allow_exceptions=*/false);
  if (changes.is_discarded()) {
    std::fprintf(stderr, "longhaul: not JSON: %s\n", Printable(options.changes, 80).c_str());
    return kExitUsage;
  }
  return Change(client, options, std::move(changes));
}

}  // namespace

int Change(RestClient& client, const Options& options, Json changes) {
  Json body = {{"changes", std::move(changes)}};
  if (!options.reason.empty()) body["reason"] = options.reason;
  const auto answer = client.Post("/v1/changes", body);
  if (!answer.ok()) {
    Fail(answer.status());
    return answer.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  if (options.json) return PrintJson(*answer), kExitOk;
  const auto count = (*answer)["changes"].get<uint64_t>();
  return std::printf(count == 1 ? "changed\n" : "%llu changes\n",
                     static_cast<unsigned long long>(count)),
         kExitOk;
}

void AddApply(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* apply =
      Add(app, action, "apply", "Apply several changes at once, as `status --why` prints them",
          Apply, options);
  apply->add_option("CHANGES", options->changes, "A list, as JSON: docs/openapi.yaml")->required();
  apply->add_option("--reason", options->reason, "Reason, which every user can read");
  apply->footer("Example:\n  longhaul apply '[{\"evict\": \"a-1\"}, {\"expedite\": \"b-1\"}]'");
}

}  // namespace longhaul::bin::client
