#include "bin/client/client_commands.h"

#include <memory>

#include "bin/client/client.h"

namespace longhaul::bin {

void AddClientCommands(CLI::App& app, Action& action) {
  const auto options = std::make_shared<client::Options>();
  client::AddJobs(app, action, options);
  client::AddNodes(app, action, options);
  client::AddCheck(app, action, options);
  client::AddQueues(app, action, options);
  client::AddReserve(app, action, options);
  client::AddUsage(app, action, options);
  client::AddWhatIf(app, action, options);
  client::AddApply(app, action, options);
  client::AddTokens(app, action, options);
  client::AddPage(app, action, options);
  client::AddTop(app, action, options);
  client::AddOutput(app, action, options);
}

}  // namespace longhaul::bin
