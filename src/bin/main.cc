#include "bin/program.h"

int main(int argc, char** argv) { return longhaul::bin::RunProgram(argc, argv); }
