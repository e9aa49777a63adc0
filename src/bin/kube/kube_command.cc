#include "bin/kube/kube_command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/process/process.h"

namespace longhaul::bin {
namespace {

int BecomeKube(const std::vector<std::string>& words) {
  const Result<std::string> folder = io::ProgramDirectory();
  if (!folder.ok()) return Fail(folder.status());
  const std::string program = *folder + "/longhaul-kube";
  std::vector<std::string> texts = {program};
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  return Fail(NotFound("the commands for Kubernetes are not installed: " + program + ": " +
                       std::strerror(errno) +
                       "; build it from source (ninja longhaul-kube) beside this program"));
}

}  // namespace

void AddKubeCommand(CLI::App& app, Action& action, const std::vector<std::string>& words) {
  app.add_subcommand("kube", "Schedule pods and run jobs on a Kubernetes cluster")
      ->group(kGroupService)
      ->callback([&action, words] { action = [words] { return BecomeKube(words); }; });
}

}  // namespace longhaul::bin
