"""PATE-GAN (Jordon, Yoon, van der Schaar 2019): noised votes of teachers teach a student, the student the generator."""
