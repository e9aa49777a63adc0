// Divides the script of a shell (sh -c SCRIPT) into words and operators, so that one command in it
// can be found and replaced.
//
// Follows the grammar of POSIX shells for words, quotes, expansions and operators. Leaves out here
// documents and the meaning of compound commands: their words are divided as all others.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/kubernetes/import/command/command_words.h"

namespace longhaul::engines::kubernetes {

struct ShellToken {
  bool is_word = false;  // else an operator or the end of a line
  CommandWord word;      // without its quotes, if no expansion is in it
  size_t begin = 0;      // in the script
  size_t end = 0;
  bool begins_command = false;  // the word is the name of a command
};

// Nothing if a quote or an expansion has no end, or if there is a here document.
std::optional<std::vector<ShellToken>> DivideScript(std::string_view script);

}  // namespace longhaul::engines::kubernetes
