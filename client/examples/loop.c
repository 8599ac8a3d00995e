/* A network of two layers trained in C, for `ladder measure`. Its lines stay in printf's buffer where stdout is not a terminal.
 *
 * cc -O2 -o loop-O2 loop.c -lm; cc -O3 -march=native -ffast-math -o loop-O3 loop.c -lm
 * ladder measure './loop-O2' './loop-O3'
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, INPUTS = 64, HIDDEN = 256 };
static const float rate = 0.05f;
static float first[INPUTS][HIDDEN], second[HIDDEN], inputs[ROWS][INPUTS], hidden[ROWS][HIDDEN], behind[HIDDEN];

static float uniform(void) { /* in -1 to 1 */
  static unsigned long long state = 1;
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (float)(state >> 40) / (float)(1 << 23) - 1;
}

int main(int count, char** arguments) {
  const int steps = count > 1 ? atoi(arguments[1]) : 1000;
  for (int i = 0; i < INPUTS; ++i)
    for (int j = 0; j < HIDDEN; ++j) first[i][j] = uniform() / sqrtf(INPUTS);
  for (int j = 0; j < HIDDEN; ++j) second[j] = uniform() / sqrtf(HIDDEN);
  for (int step = 0; step < steps; ++step) {
    float loss = 0, errors[ROWS];
    for (int row = 0; row < ROWS; ++row) {
      for (int i = 0; i < INPUTS; ++i) inputs[row][i] = uniform();
      for (int j = 0; j < HIDDEN; ++j) hidden[row][j] = 0;
      for (int i = 0; i < INPUTS; ++i)
        for (int j = 0; j < HIDDEN; ++j) hidden[row][j] += inputs[row][i] * first[i][j];
      errors[row] = -tanhf(inputs[row][0] + inputs[row][1]);
      for (int j = 0; j < HIDDEN; ++j) {
        hidden[row][j] = hidden[row][j] > 0 ? hidden[row][j] : 0;
        errors[row] += hidden[row][j] * second[j];
      }
      loss += errors[row] * errors[row] / ROWS;
    }
    for (int row = 0; row < ROWS; ++row) {
      const float gradient = 2 * rate * errors[row] / ROWS;
      for (int j = 0; j < HIDDEN; ++j) behind[j] = hidden[row][j] > 0 ? gradient * second[j] : 0;
      for (int j = 0; j < HIDDEN; ++j) second[j] -= gradient * hidden[row][j];
      for (int i = 0; i < INPUTS; ++i)
        for (int j = 0; j < HIDDEN; ++j) first[i][j] -= inputs[row][i] * behind[j];
    }
    printf("step %d loss %.6f\n", step, loss);
  }
  return 0;
}
