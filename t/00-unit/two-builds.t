# Two `make build` in one checkout, as of somebody who starts `make run` and `make test` beside each other: the second waits, and says
# so, since both write the same files.
use strict;
use warnings;
use lib 't/lib';

use File::Copy qw(copy);
use File::Temp qw(tempdir);
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_file read_if_any write_file);
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

for my $tool (qw(flock make)) {
    plan skip_all => "there is no $tool" if !grep { -x "$_/$tool" } split /:/, $ENV{PATH};
}

my $dir = tempdir(CLEANUP => 1);
copy('Makefile', "$dir/Makefile") or die $!;

# In the place of perl and of what that makes: each tells when it begins and ends, and the first build goes on until it is told.
my $step = <<'SH';
#!/bin/sh
echo "begin $0 $1" >>"$DIR/steps"
while [ ! -e "$DIR/go" ]; do sleep 0.05; done
echo "end $0 $1" >>"$DIR/steps"
SH
for my $name (qw(perl Build)) {
    write_file("$dir/$name", $step =~ s/\$0/$name/gr =~ s/\$DIR/$dir/gr);
    chmod 0755, "$dir/$name" or die $!;
}

sub begin {
    my $said = shift;
    my $pid  = fork // die $!;
    return $pid if $pid;
    open STDERR, '>', $said or die $!;
    exec 'timeout', 120, 'make', '-C', $dir, "PERL=$dir/perl", 'build' or POSIX::_exit(127);
}

sub wait_for {
    my ($holds, $end) = (shift, time + 60);
    sleep 0.05 while !$holds->() && time < $end;
    return $holds->();
}

my $first = begin("$dir/first");
ok wait_for(sub { read_if_any("$dir/steps") =~ /begin/ }), 'one builds';
my $second = begin("$dir/second");
ok wait_for(sub { read_if_any("$dir/second") =~ /waits until another build in this directory has ended/ }),
    'another one says that it waits';
write_file("$dir/go", '');
for my $pid ($first, $second) {
    waitpid $pid, 0;
    is $?, 0, 'it builds';
}
is read_if_any("$dir/first"), '', 'the first has had nothing to say';
my $build = "begin perl Build.PL\nend perl Build.PL\nbegin Build --quiet\nend Build --quiet\n";
is read_file("$dir/steps"), $build x 2, 'they have built one after the other';

write_file("$dir/perl", "#!/bin/sh\nexit 3\n");
my ($status) = run_command('make', '-C', $dir, "PERL=$dir/perl", 'build');
isnt $status, 0, 'a build that fails is told as before';

done_testing;
