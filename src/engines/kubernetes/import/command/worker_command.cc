#include "engines/kubernetes/import/command/worker_command.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "engines/kubernetes/import/command/shell_script.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr const char* kHiddenLauncher =
    "starts torchrun or dlrover-run in a way that cannot be translated; make it the container's "
    "command, or one command of a script that names it once and without a here document";

// Programs that start the processes of several GPUs or nodes by themselves.
constexpr auto kOtherLaunchers =
    std::to_array<std::string_view>({"accelerate", "deepspeed", "horovodrun", "mpirun", "mpiexec",
                                     "srun", "tune", "colossalai", "ray"});

constexpr size_t kFirstWords = 8;  // in which a launcher is named

std::string_view BaseOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsShell(std::string_view word) {
  const std::string_view name = BaseOf(word);
  return name == "sh" || name == "bash" || name == "dash" || name == "zsh" || name == "ash";
}

// The index of the script in [bash, -c, SCRIPT]; 0 if the words are no such command.
size_t ScriptIndex(const std::vector<std::string>& words) {
  if (!IsShell(words[0])) return 0;
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    if (!words[i].starts_with('-') || words[i].starts_with("--")) return 0;
    if (words[i].ends_with('c')) return i + 1;
    if (words[i].ends_with('o')) ++i;  // -o pipefail
  }
  return 0;
}

std::vector<std::string> Texts(const std::vector<CommandWord>& words) {
  std::vector<std::string> texts;
  for (const CommandWord& word : words) texts.push_back(word.text);
  return texts;
}

// A word that is a launcher, or a text for another program that has one in it.
bool MayStartLauncher(const CommandWord& word) {
  if (NamesLauncher(word)) return true;
  return word.text.find(' ') != std::string::npos &&
         (MentionsName(word.text, "torchrun") || MentionsName(word.text, "dlrover-run"));
}

bool AreLiteral(const std::vector<CommandWord>& words) {
  return std::ranges::all_of(words, &CommandWord::literal);
}

class CommandTranslator {
 public:
  CommandTranslator(const ContainerCommand& container, Translation& translation)
      : container_(container), translation_(translation) {}

  WorkerCommand Translate() {
    const size_t script = ScriptIndex(container_.words);
    if (script == 0) {
      TranslateWords();
    } else {
      TranslateScript(script);
    }
    return std::move(result_);
  }

 private:
  void TranslateWords() {
    std::vector<CommandWord> words;
    for (const std::string& word : container_.words) {
      words.push_back(ExpandReferences(word, container_.variables));
    }
    if (const std::optional<FoundLauncher> launcher = FindLauncher(words)) {
      words = Launched(*launcher, std::span(words).subspan(launcher->words));
    } else if (std::ranges::any_of(words, MayStartLauncher)) {
      return translation_.Fail(container_.path, kHiddenLauncher);
    } else {
      ReportOtherLauncher(words);
    }
    if (AreLiteral(words)) {
      result_.argv = Texts(words);
    } else {
      result_.argv = {"/bin/sh", "-c", WithNames("exec " + ShellSource(words))};
    }
  }

  void TranslateScript(size_t index) {
    result_.argv = container_.words;
    std::string& script = result_.argv[index];
    script = ExpandScript(script, container_.variables);
    const std::optional<std::vector<ShellToken>> tokens = DivideScript(script);
    std::vector<size_t> found;
    for (size_t i = 0; tokens && i < tokens->size(); ++i) {
      if ((*tokens)[i].begins_command && FindLauncher(CommandAt(*tokens, i, kFirstWords))) {
        found.push_back(i);
      }
    }
    const bool mentioned =
        tokens ? std::ranges::count_if(*tokens,
                                       [](const ShellToken& token) {
                                         return token.is_word && NamesLauncher(token.word);
                                       }) > static_cast<std::ptrdiff_t>(found.size())
               : MentionsName(script, "torchrun") || MentionsName(script, "dlrover-run") ||
                     MentionsName(script, "torch.distributed.run");
    const bool has_arguments = index + 1 < container_.words.size();
    if (found.size() > 1 || mentioned || (found.size() == 1 && has_arguments)) {
      return translation_.Fail(container_.path, kHiddenLauncher);
    }
    if (found.empty()) {
      if (tokens) ReportOtherLaunchers(*tokens);
      script = WithNames(script);
      return;
    }
    ReplaceInScript(*tokens, found.front(), index);
  }

  // The words from a token to the next operator, at most so many.
  static std::vector<CommandWord> CommandAt(const std::vector<ShellToken>& tokens, size_t at,
                                            size_t most = SIZE_MAX) {
    std::vector<CommandWord> words;
    for (; at < tokens.size() && tokens[at].is_word && words.size() < most; ++at) {
      words.push_back(tokens[at].word);
    }
    return words;
  }

  // Replaces the launcher's command in the script by what it starts.
  void ReplaceInScript(const std::vector<ShellToken>& tokens, size_t at, size_t index) {
    const std::string script = result_.argv[index];
    const std::vector<CommandWord> words = CommandAt(tokens, at);
    const std::optional<FoundLauncher> launcher = FindLauncher(words);
    CHECK(launcher.has_value());
    const std::vector<CommandWord> started =
        Launched(*launcher, std::span(words).subspan(launcher->words));
    const std::string before = script.substr(0, tokens[at].begin);
    const std::string after = script.substr(tokens[at + words.size() - 1].end);
    const bool alone_before = Trim(before).empty() || Trim(before) == "exec";
    const bool last = Trim(after).empty();
    if (alone_before && last && AreLiteral(started)) {
      result_.argv = Texts(started);
      return;
    }
    if (!alone_before || !last) {
      translation_.Changed(container_.path,
                           "what the script does beside " + launcher->name +
                               " is done by each process, no longer once in each pod");
    }
    // exec, so that signals reach the process.
    const bool executes = at > 0 && tokens[at - 1].word == CommandWord{"exec", true};
    const std::string exec = last && !executes ? "exec " : "";
    result_.argv[index] = WithNames(before + exec + ShellSource(started) + after);
  }

  std::vector<CommandWord> Launched(const FoundLauncher& launcher,
                                    std::span<const CommandWord> words) {
    result_.launched = true;
    std::vector<CommandWord> started =
        TranslateLauncher(launcher, words, container_.path, translation_, result_.options);
    const bool ranks = std::ranges::any_of(started, [](const CommandWord& word) {
      return !word.literal &&
             (MentionsName(word.text, "RANK") || MentionsName(word.text, "WORLD_SIZE"));
    });
    if (ranks) {
      translation_.Changed(container_.path,
                           "RANK and WORLD_SIZE in the script's arguments now count processes; "
                           "NODE_RANK and NODE_NUM count pods");
    }
    return started;
  }

  // The script of a shell, in which the other operator's variables have their values.
  std::string WithNames(const std::string& script) {
    std::string names;
    for (const auto& [theirs, ours] : container_.renamed) {
      if (!MentionsName(script, theirs)) continue;
      names += " " + theirs + "=\"$" + ours + "\"";
    }
    if (names.empty()) return script;
    translation_.Changed(container_.path,
                         "variables of the other operator are set from Longhaul's:" + names);
    return "export" + names + "; " + script;
  }

  void ReportOtherLauncher(std::span<const CommandWord> words) {
    if (words.empty() || !words[0].literal) return;
    const std::string_view name = BaseOf(words[0].text);
    if (std::ranges::find(kOtherLaunchers, name) == kOtherLaunchers.end()) return;
    translation_.Dropped(container_.path,
                         std::string(name) +
                             " starts processes itself, with addresses that Longhaul does not "
                             "give; name the script instead, see docs/frameworks.md");
  }

  void ReportOtherLaunchers(const std::vector<ShellToken>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].begins_command) ReportOtherLauncher(CommandAt(tokens, i, 1));
    }
  }

  const ContainerCommand& container_;
  Translation& translation_;
  WorkerCommand result_;
};

}  // namespace

WorkerCommand TranslateCommand(const ContainerCommand& container, Translation& translation) {
  CHECK(!container.words.empty());
  return CommandTranslator(container, translation).Translate();
}

}  // namespace longhaul::engines::kubernetes
