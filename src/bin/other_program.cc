#include "bin/other_program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "io/process/process.h"

namespace longhaul::bin {
namespace {

constexpr const OtherProgram* kAll[] = {&kPlan,      &kKube,     &kProfile,   &kSimulate,
                                        &kCalibrate, &kPipeline, &kCheckpoint};

int Become(const OtherProgram& other, const std::vector<std::string>& words) {
  const Result<std::string> folder = io::ProgramDirectory();
  if (!folder.ok()) return Fail(folder.status());
  const std::string program = *folder + "/" + other.program;
  std::vector<std::string> texts = {program};
  if (std::string_view(other.program) == kToolsProgram) texts.emplace_back(other.command);
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  ::execv(program.c_str(), arguments.data());
  return Fail(NotFound(std::string("`longhaul ") + other.command + "` cannot start " + program +
                       ": " + std::strerror(errno) + "; build it from source (ninja " +
                       other.program + ") beside this program"));
}

}  // namespace

bool IsOtherProgram(std::string_view command) {
  return std::any_of(std::begin(kAll), std::end(kAll),
                     [&](const OtherProgram* other) { return other->command == command; });
}

void AddOtherProgram(CLI::App& app, Action& action, const OtherProgram& other,
                     const std::vector<std::string>& words) {
  AddOwnCommand(app, other)->callback([&action, &other, words] {
    action = [&other, words] { return Become(other, words); };
  });
}

CLI::App* AddOwnCommand(CLI::App& app, const OtherProgram& own) {
  CLI::App* command = app.add_subcommand(own.command, own.help);
  command->group(own.group);
  return command;
}

}  // namespace longhaul::bin
