// The words of a container's command, some of which are known only when it runs.
//
// Kubernetes replaces $(NAME) in a command by a variable of the container. Longhaul starts the
// command of a job as it stands, so a reference to a value that the manifest has is replaced, and a
// reference to one that is known at run time becomes a shell's.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::engines::kubernetes {

struct CommandWord {
  std::string text;
  bool literal = true;  // else `text` is what a shell expands to one or more words

  friend bool operator==(const CommandWord&, const CommandWord&) = default;
};

// The variables that a container's command may refer to.
struct CommandVariables {
  std::map<std::string, std::string, std::less<>> values;
  std::set<std::string, std::less<>> at_run_time;  // set, but the manifest has no value
};

// A word of a container's command. A reference to an unknown variable stays, as in Kubernetes.
CommandWord ExpandReferences(std::string_view word, const CommandVariables& variables);
// The same for the text of a shell's script, in which references at run time become ${NAME}.
std::string ExpandScript(std::string_view script, const CommandVariables& variables);

// The word as a shell reads it.
std::string ShellSource(const CommandWord& word);
std::string ShellSource(const std::vector<CommandWord>& words);

// Whether a shell's text mentions this name: not as a part of a longer one.
bool MentionsName(std::string_view text, std::string_view name);

}  // namespace longhaul::engines::kubernetes
