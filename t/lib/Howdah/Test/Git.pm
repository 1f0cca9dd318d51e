package Howdah::Test::Git;

# A repository of the test's own, for programs that show one: demo.git in a directory, always with the same history.
#
#   my $git = Howdah::Test::Git->new;
#   my $id = $git->commit('hello.txt', "one\n", 'The first');
#   $git->run('tag', 'v1.0'); $git->dir; $git->unpacked($tar_gz, 'hello.txt');
use strict;
use warnings;

use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp ();

# What the people who run the test have set for git must not decide.
delete @ENV{grep { /^GIT_/ } keys %ENV};
my %author = map { ("GIT_${_}_NAME" => 'Ada', "GIT_${_}_EMAIL" => 'ada@example.org') } qw(AUTHOR COMMITTER);

sub new {
    my $class = shift;
    my $self  = bless {dir => File::Temp->newdir, commits => 0}, $class;
    $self->run('init', '--quiet', '--bare', '--initial-branch=main');
    $self->write_file($self->dir . '/demo.git/description', "The camels\n");
    return $self;
}

# Its id.
sub commit {
    my ($self, $file, $text, $message) = @_;
    my $tree = $self->dir . '/tree';
    make_path(dirname("$tree/$file"));
    $self->write_file("$tree/$file", $text);
    my $date = 1_700_000_000 + 86_400 * $self->{commits}++;
    local @ENV{qw(GIT_AUTHOR_DATE GIT_COMMITTER_DATE GIT_WORK_TREE)} = ("$date +0000", "$date +0000", $tree);
    $self->run('add', '--all');
    $self->run('commit', '--quiet', '--message', $message);
    return $self->run('rev-parse', 'HEAD') =~ s/\n//r;
}

sub dir { return "$_[0]{dir}" }

# What git printed.
sub run {
    my ($self, @command) = @_;
    local @ENV{keys %author} = values %author;
    local @ENV{qw(GIT_CONFIG_GLOBAL GIT_DIR)} = ('/dev/null', $self->dir . '/demo.git');
    open my $pipe, '-|', 'git', @command or die "cannot run git: $!";
    local $/;
    my $said = <$pipe> // '';
    close $pipe or die "git @command failed";
    return $said;
}

# A file out of an archive, in which all stands below a directory.
sub unpacked {
    my ($self, $archive, $file) = @_;
    my $name = $self->dir . '/snapshot.tar.gz';
    $self->write_file($name, $archive);
    open my $pipe, '-|', qw(tar --wildcards -xzOf), $name, "*/$file" or die "cannot run tar: $!";
    local $/;
    my $text = <$pipe> // '';
    close $pipe or return 'no archive';
    return $text;
}

sub write_file {
    my ($self, $name, $text) = @_;
    open my $out, '>:raw', $name or die "cannot write $name: $!";
    print {$out} $text;
    return close $out;
}

1;
